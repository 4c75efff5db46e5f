"""What is read and written: held folders, durable writes, received data, Programs."""
