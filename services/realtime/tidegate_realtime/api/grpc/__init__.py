"""``inference.GRPCInferenceService``: the same questions as over HTTP, asked by gRPC."""
