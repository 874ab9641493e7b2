"""Where rows come from: files on this machine's disk or in S3, by one port."""
