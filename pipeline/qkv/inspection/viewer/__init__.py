"""The viewer: a page that shows the attention of sentences in a browser.

The modules, in reading order:

- `data`: the sentences of each run and the labels of measures, as the page holds them.
- `page`: the HTML file, put together from the data and the HTML, CSS and JavaScript files of this folder.
"""
