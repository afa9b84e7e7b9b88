"""Reads and writes files safely: no output file is ever left incomplete, no file of another program is overwritten, and
files from others are checked before they are used.

The modules, in reading order:

- `written`: the rules for overwriting and deleting, and the list of the files that qkv wrote in a folder
- `lock`: locks of folders, which end with their process
- `atomic`: atomic writing of files and folders
- `json`: JSON files
- `arrays`: NumPy files from others, and long arrays in temporary files
- `paths`: checks of paths that the user gives, file patterns and digests
- `run_directory`: the paths of all files of a run and of an evaluation
"""
