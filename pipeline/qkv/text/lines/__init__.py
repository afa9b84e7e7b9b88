"""Lines of text from files, streams and users: decoding, normal form, surface style and sentences.

The modules, in reading order:

- `line`: a line of text: its end, its normal form, its tag and its invisible characters
- `text_file`: the lines of text files, plain or compressed
- `stream`: the lines of a stream, as they arrive
- `style`: the surface style of the training text
- `moses`: tokenisation and detokenisation by the rules of Moses
- `typed_line`: the reader of sentences that users write
- `sentences`: the division of a line into sentences
- `language_names`: the English names of languages
"""
