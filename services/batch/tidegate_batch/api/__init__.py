"""``/v1/jobs``: the jobs of one store over HTTP; FastAPI comes with the extra ``realtime``."""
