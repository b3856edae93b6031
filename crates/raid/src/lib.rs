//! Linux md on disk and in geometry: superblocks, bitmaps, layouts, assembly, scrub plan and diagnosis, as pure logic.
