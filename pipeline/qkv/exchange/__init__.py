"""Exchange with other programs: exports runs to their formats, and imports Marian models as runs.

The modules, in reading order:

- `export`: the request of an export, the table of formats, and the steps of an export
- `compatibility`: the settings that another program supports, and the weights of a run by name
- `model_card`: the model card of an export
- `ctranslate2_model`: CTranslate2 models, written and loaded
- `argos_package`: packages of Argos Translate, written and loaded
- `saved_model`: TensorFlow SavedModels, written and loaded
- `marian_export`: MarianMTModels of Hugging Face, written and loaded
- `parity`: the check that an exported model translates and scores as its run does
- `marian_import`: the import of a Marian folder as a run
- `marian_config`: the JSON files of a Marian folder, as settings of a run
- `marian_vocabulary`: the vocabulary of a Marian folder, as ids of a run
- `marian_weights`: the arrays of a Marian folder, as weights of a run
"""
