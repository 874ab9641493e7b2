"""The offline path: scores files chunk by chunk, each row once, whatever is killed."""
