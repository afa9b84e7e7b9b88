"""Whether the source tokens that attention shows matter to the prediction; see ../FAITHFULNESS.md."""
