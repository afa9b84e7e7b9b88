"""The viewer: a page that shows the attention of sentences in a browser.

The modules, in reading order:

- `data`: the sentences of each run and the labels of measures, in the form of the page's data
- `page`: the HTML file, made of the data and the HTML, CSS and JavaScript files of this folder

The scripts in JavaScript are in `scripts/`.
"""
