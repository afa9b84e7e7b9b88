"""A run on a page where one types sentences and sees the attention."""
