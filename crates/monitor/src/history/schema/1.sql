CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE arrays (
    id INTEGER PRIMARY KEY,
    uuid TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    level INTEGER NOT NULL,
    raid_disks INTEGER NOT NULL,
    stripes INTEGER NOT NULL,
    chunk_bytes INTEGER NOT NULL,
    seen_us INTEGER NOT NULL,
    joined_us INTEGER,
    sum INTEGER NOT NULL
) STRICT;

CREATE TABLE passes (
    id INTEGER PRIMARY KEY,
    pass TEXT NOT NULL UNIQUE,
    array INTEGER NOT NULL REFERENCES arrays (id),
    by_whom TEXT NOT NULL,
    begun_us INTEGER NOT NULL,
    ended_us INTEGER NOT NULL,
    method TEXT NOT NULL,
    result TEXT NOT NULL,
    stopped TEXT,
    first_stripe INTEGER NOT NULL,
    end_stripe INTEGER NOT NULL,
    complete INTEGER NOT NULL,
    degraded INTEGER NOT NULL,
    stripes_checked INTEGER NOT NULL,
    stripes_skipped INTEGER NOT NULL,
    stripes_rechecked INTEGER NOT NULL,
    bytes_checked INTEGER NOT NULL,
    reading_us INTEGER NOT NULL,
    findings INTEGER NOT NULL,
    busy INTEGER NOT NULL,
    repaired INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX passes_of_array ON passes (array, ended_us, id);
CREATE INDEX passes_by_time ON passes (ended_us, id);

CREATE TABLE findings (
    pass INTEGER NOT NULL REFERENCES passes (id),
    number INTEGER NOT NULL,
    stripe INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    certainty TEXT NOT NULL,
    strength TEXT NOT NULL,
    member INTEGER,
    device TEXT,
    device_offset INTEGER,
    array_offset INTEGER,
    chunk_offset INTEGER NOT NULL,
    length INTEGER NOT NULL,
    repaired INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (pass, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE reports (
    pass INTEGER PRIMARY KEY REFERENCES passes (id),
    bytes INTEGER NOT NULL,
    document BLOB NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

CREATE TABLE cells (
    array INTEGER NOT NULL REFERENCES arrays (id),
    cell INTEGER NOT NULL,
    checked_us INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (array, cell)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    event TEXT NOT NULL UNIQUE,
    at_us INTEGER NOT NULL,
    array TEXT,
    pass TEXT,
    kind TEXT NOT NULL,
    severity TEXT NOT NULL,
    change TEXT NOT NULL,
    subject TEXT NOT NULL,
    text TEXT NOT NULL,
    sum INTEGER NOT NULL
) STRICT;
CREATE INDEX events_of_alert ON events (array, kind, subject, id);

CREATE TABLE deliveries (
    channel TEXT NOT NULL,
    event INTEGER NOT NULL REFERENCES events (id),
    at_us INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (channel, event)
) STRICT, WITHOUT ROWID;

CREATE TABLE drives (
    id INTEGER PRIMARY KEY,
    drive TEXT NOT NULL UNIQUE,
    device TEXT NOT NULL,
    model TEXT NOT NULL,
    serial TEXT NOT NULL,
    seen_us INTEGER NOT NULL,
    sum INTEGER NOT NULL
) STRICT;

CREATE TABLE health (
    drive INTEGER NOT NULL REFERENCES drives (id),
    at_us INTEGER NOT NULL,
    state TEXT NOT NULL,
    celsius INTEGER,
    media_errors INTEGER,
    worn_percent INTEGER,
    power_on_hours INTEGER,
    sum INTEGER NOT NULL,
    PRIMARY KEY (drive, at_us)
) STRICT, WITHOUT ROWID;
