"""Markup in translations: tags are taken out of a text, and put back where word links say.

The modules, in reading order:

- `projection`: the place of a span of source words in the translation
"""
