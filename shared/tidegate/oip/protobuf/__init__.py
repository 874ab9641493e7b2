"""The Open Inference Protocol as protobuf messages to tensors and back; needs ``protobuf``.

``v2_pb2`` is made of ``v2.proto``, which says how.
"""
