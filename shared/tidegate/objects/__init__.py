"""Object storage behind one small port: a local directory, or S3.

``tidegate.objects.port`` is the port, ``tidegate.objects.opening`` picks the adapter by URL.
"""
