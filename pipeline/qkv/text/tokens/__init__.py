"""Subword ids and back: the tokenizer, its models, the word of each token, and encoded text on disk."""
