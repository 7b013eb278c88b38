"""Where data is: paths on this machine and on object stores, durable writes, content hashes, caches."""
