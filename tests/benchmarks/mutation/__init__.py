"""Which lines of code does no test hold? Every mutant that no test notices is listed."""
