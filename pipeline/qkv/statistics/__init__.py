"""How sure a number over sentences is: intervals, tests, and fitted probabilities."""
