"""What crosses between a worker and a Policy: frames of MessagePack."""
