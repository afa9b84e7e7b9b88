"""The one door for text from outside: files, streams and typed lines, each made of lines as `line` defines them."""
