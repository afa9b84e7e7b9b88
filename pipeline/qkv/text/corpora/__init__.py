"""Sentence pairs on disk: read in `formats`, held as a `corpus`, filtered, held out, mixed, and linked word by word."""
