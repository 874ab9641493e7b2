"""The interactive path: an asyncio gateway whose micro-batches keep a latency objective."""
