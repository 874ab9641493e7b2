"""Running a model version: the one code that both services score rows with."""
