"""The live page: a person types a sentence, sees where attention went, changes it, and sees what that does."""
