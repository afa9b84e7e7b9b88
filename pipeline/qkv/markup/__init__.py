"""Markup in translations: tags are taken out of a text, and put back where word links say.

The modules, in reading order:

- `projection`: the place of a span of source words in the translation
- `marked_text`: a text with markup, its plain text, and the markup put back into the translation
- `html_text`: HTML as a text with markup, and the texts of a page
- `placeholders`: what must be copied exactly from a text of a program
- `translation`: the translation of texts with markup
"""
