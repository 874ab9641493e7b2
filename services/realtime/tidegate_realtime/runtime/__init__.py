"""The asyncio side of the scheduler: futures, timers, and the port to what runs a batch."""
