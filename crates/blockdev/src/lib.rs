//! Block devices: memory, files and devices through io_uring, a faulty wrapper, aligned buffers.
