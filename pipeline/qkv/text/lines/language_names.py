"""The English names of languages by their codes in ISO 639, for programs and pages that show them to people."""

import re

_NAMES = """
aa Afar, ab Abkhazian, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese, ast Asturian, av
Avaric, ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bho Bhojpuri, bi Bislama, bm Bambara, bn
Bengali, bo Tibetan, br Breton, bs Bosnian, ca Catalan, ce Chechen, ceb Cebuano, ch Chamorro, ckb Central Kurdish, co
Corsican, cr Cree, cs Czech, cu Church Slavonic, cv Chuvash, cy Welsh, da Danish, de German, dsb Lower Sorbian, dv
Dhivehi, dz Dzongkha, ee Ewe, el Greek, en English, eo Esperanto, es Spanish, et Estonian, eu Basque, fa Persian, ff
Fulah, fi Finnish, fil Filipino, fj Fijian, fo Faroese, fr French, fy Western Frisian, ga Irish, gd Scottish Gaelic,
gl Galician, gn Guarani, gu Gujarati, gv Manx, ha Hausa, haw Hawaiian, he Hebrew, hi Hindi, hr Croatian, hsb Upper
Sorbian, ht Haitian Creole, hu Hungarian, hy Armenian, hz Herero, ia Interlingua, id Indonesian, ie Interlingue, ig
Igbo, ii Sichuan Yi, ik Inupiaq, io Ido, is Icelandic, it Italian, iu Inuktitut, ja Japanese, jv Javanese, ka
Georgian, kab Kabyle, kg Kongo, ki Kikuyu, kk Kazakh, kl Greenlandic, km Khmer, kn Kannada, ko Korean, kr Kanuri, ks
Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish, lg Ganda, li Limburgish, ln Lingala,
lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian, mg Malagasy, mh Marshallese, mi Maori, mk Macedonian, ml
Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, na Nauru, nb Norwegian Bokmål, nd North
Ndebele, nds Low German, ne Nepali, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr South Ndebele, nso Northern
Sotho, nv Navajo, ny Chichewa, oc Occitan, oj Ojibwe, om Oromo, or Odia, os Ossetic, pa Punjabi, pi Pali, pl Polish,
ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit, sc
Sardinian, sd Sindhi, se Northern Sami, sg Sango, si Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn Shona, so Somali,
sq Albanian, sr Serbian, ss Swati, st Southern Sotho, su Sundanese, sv Swedish, sw Swahili, ta Tamil, te Telugu, tg
Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog, tn Tswana, to Tongan, tr Turkish, ts Tsonga, tt Tatar, tw Twi, ty
Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vi Vietnamese, vo Volapük, wa Walloon, wo Wolof, xh
Xhosa, yi Yiddish, yo Yoruba, yue Cantonese, za Zhuang, zh Chinese, zu Zulu
"""
LANGUAGE_NAMES = dict(entry.strip().split(" ", 1) for entry in _NAMES.replace("\n", " ").split(","))
"""The name of each language, by its code of two letters, or of three if it has none of two."""


def name_language(code: str) -> str:
    """Returns the English name of a language, such as `Portuguese (pt-BR)`; the code itself if it is not in the list.

    Args:
        code: the code of the language, which may have further parts, such as `pt-BR`.
    """
    language = re.split("[-_]", code)[0].lower()
    if language not in LANGUAGE_NAMES:
        return code
    return LANGUAGE_NAMES[language] if language == code.lower() else f"{LANGUAGE_NAMES[language]} ({code})"
