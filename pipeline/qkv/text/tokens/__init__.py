"""Subwords and words: tokenizers, the word of each token, and encoded text on disk.

The modules, in reading order:

- `special_tokens`: the ids of PAD, UNK, BOS and EOS, and SentencePiece's mark of a word's beginning
- `words`: the words of a sentence, and the word of each token
- `subword_models`: SentencePiece models, applied by SentencePiece or by TensorFlow Text
- `tokenizer`: the tokenizer of a trained run, which encodes and decodes text
- `marian_tokenizer`: the tokenizer of an imported Marian model
- `run_tokenizer`: the training, reuse and loading of a run's tokenizer
- `encoding`: encoded sentences and pairs on disk
- `token_links`: links between tokens, made from links between words
- `bpe_dropout`: segmentations of the training text by BPE-dropout
"""
