-- The rail: people, agents, requests, deliveries, what came in, what is owed.
-- Times are microseconds since 1970, UTC. Booleans are 0 and 1.

CREATE TABLE principals (
    id          TEXT    NOT NULL PRIMARY KEY,
    name        TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    removed_at  INTEGER
) STRICT;
CREATE UNIQUE INDEX principals_by_name ON principals (name) WHERE removed_at IS NULL;

CREATE TABLE bindings (
    id           TEXT    NOT NULL PRIMARY KEY,
    principal    TEXT    NOT NULL REFERENCES principals (id),
    channel      TEXT    NOT NULL,
    realm        TEXT    NOT NULL,
    account      TEXT    NOT NULL,
    address      TEXT,
    created_at   INTEGER NOT NULL,
    revoked_at   INTEGER,
    last_seen_at INTEGER,
    trouble      TEXT
) STRICT;
CREATE UNIQUE INDEX bindings_by_account ON bindings (channel, realm, account) WHERE revoked_at IS NULL;
CREATE INDEX bindings_by_principal ON bindings (principal) WHERE revoked_at IS NULL;

CREATE TABLE agents (
    id             TEXT    NOT NULL PRIMARY KEY,
    name           TEXT    NOT NULL,
    key_hash       TEXT,
    webhook_secret TEXT    NOT NULL,
    guardian       TEXT    REFERENCES principals (id),
    created_at     INTEGER NOT NULL,
    revoked_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX agents_by_name ON agents (name) WHERE revoked_at IS NULL;
CREATE UNIQUE INDEX agents_by_key ON agents (key_hash) WHERE key_hash IS NOT NULL;

CREATE TABLE sessions (
    agent      TEXT    NOT NULL REFERENCES agents (id),
    name       TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (agent, name)
) STRICT;

CREATE TABLE requests (
    id               TEXT    NOT NULL PRIMARY KEY,
    code             TEXT    NOT NULL,
    kind             TEXT    NOT NULL CHECK (kind IN ('tool_approval', 'question', 'access_request')),
    status           TEXT    NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'answered', 'skipped', 'expired', 'cancelled')),
    revision         INTEGER NOT NULL,
    version          INTEGER NOT NULL,
    agent            TEXT    NOT NULL REFERENCES agents (id),
    session          TEXT,
    run              TEXT,
    guardian         TEXT    NOT NULL REFERENCES principals (id),
    title            TEXT,
    body             TEXT,
    tool_name        TEXT,
    tool_input       TEXT,
    options          TEXT    NOT NULL,
    allow_text       INTEGER NOT NULL,
    risk             TEXT    NOT NULL CHECK (risk IN ('low', 'medium', 'high')),
    digest           TEXT    NOT NULL,
    callback_url     TEXT,
    metadata         TEXT    NOT NULL,
    supersedes       TEXT,
    superseded_by    TEXT,
    asked            INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    deadline         INTEGER NOT NULL,
    answer_option    TEXT,
    answer_text      TEXT,
    reason           TEXT,
    decided_by       TEXT    REFERENCES principals (id),
    decided_channel  TEXT,
    ended_at         INTEGER
) STRICT;
CREATE UNIQUE INDEX requests_live_code ON requests (code) WHERE status = 'pending';
CREATE INDEX requests_by_code ON requests (code, created_at);
CREATE INDEX requests_same ON requests (agent, digest) WHERE status = 'pending';
CREATE INDEX requests_by_deadline ON requests (deadline) WHERE status = 'pending';
CREATE INDEX requests_by_guardian ON requests (guardian, created_at) WHERE status = 'pending';
CREATE INDEX requests_by_agent ON requests (agent, id);

-- Which request a call got, so that the same call gets the same one again.
CREATE TABLE idempotency (
    agent           TEXT    NOT NULL REFERENCES agents (id),
    idempotency_key TEXT    NOT NULL,
    body_hash       TEXT    NOT NULL,
    request         TEXT    NOT NULL REFERENCES requests (id),
    created_at      INTEGER  NOT NULL,
    PRIMARY KEY (agent, idempotency_key)
) STRICT;

CREATE TABLE deliveries (
    id              TEXT    NOT NULL PRIMARY KEY,
    request         TEXT    NOT NULL REFERENCES requests (id),
    binding         TEXT    NOT NULL REFERENCES bindings (id),
    channel         TEXT    NOT NULL,
    address         TEXT    NOT NULL,
    message         TEXT,
    state           TEXT    NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'unknown', 'gone', 'failed')),
    shown_version   INTEGER NOT NULL,
    desired_version INTEGER NOT NULL,
    is_whole        INTEGER NOT NULL,
    sent_at         INTEGER,
    seen_at         INTEGER,
    opened_at       INTEGER,
    detail          TEXT,
    attempts        INTEGER NOT NULL,
    next_at         INTEGER NOT NULL,
    lease_until     INTEGER NOT NULL,
    fence           INTEGER NOT NULL
) STRICT;
CREATE INDEX deliveries_by_request ON deliveries (request);
CREATE INDEX deliveries_by_message ON deliveries (channel, address, message);
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE shown_version < desired_version;

CREATE TABLE inbox (
    id          TEXT    NOT NULL PRIMARY KEY,
    channel     TEXT    NOT NULL,
    receiver    TEXT    NOT NULL,
    dedup_key   TEXT    NOT NULL,
    lane        TEXT    NOT NULL,
    raw         BLOB    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('new', 'done', 'poison')),
    attempts    INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    outcome     TEXT,
    reply       TEXT,
    request     TEXT
) STRICT;
CREATE UNIQUE INDEX inbox_once ON inbox (channel, receiver, dedup_key);
CREATE INDEX inbox_new ON inbox (id) WHERE state = 'new';
CREATE INDEX inbox_by_age ON inbox (received_at);

CREATE TABLE jobs (
    id          TEXT    NOT NULL PRIMARY KEY,
    kind        TEXT    NOT NULL,
    request     TEXT    NOT NULL REFERENCES requests (id),
    payload     TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('ready', 'done', 'dead')),
    attempts    INTEGER NOT NULL,
    next_at     INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    last_error  TEXT,
    created_at  INTEGER NOT NULL,
    done_at     INTEGER
) STRICT;
CREATE UNIQUE INDEX jobs_once ON jobs (kind, request);
CREATE INDEX jobs_due ON jobs (next_at) WHERE state = 'ready';

CREATE TABLE leases (
    name       TEXT    NOT NULL PRIMARY KEY,
    owner      TEXT    NOT NULL,
    fence      INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;

CREATE TABLE links (
    hash       TEXT    NOT NULL PRIMARY KEY,
    principal  TEXT    NOT NULL REFERENCES principals (id),
    expires_at INTEGER NOT NULL,
    used_at    INTEGER
) STRICT;

CREATE TABLE logins (
    hash       TEXT    NOT NULL PRIMARY KEY,
    principal  TEXT    NOT NULL REFERENCES principals (id),
    form_key   TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    seen_at    INTEGER NOT NULL,
    ended_at   INTEGER
) STRICT;

-- One row for each thing that happened, in the transaction that made it so.
-- seq, prev and hash are filled in by the linker, in the order of commit.
CREATE TABLE audit (
    ord     INTEGER PRIMARY KEY AUTOINCREMENT,
    xid     INTEGER NOT NULL DEFAULT 0,
    seq     INTEGER,
    at      INTEGER NOT NULL,
    kind    TEXT    NOT NULL,
    request TEXT,
    agent   TEXT,
    actor   TEXT,
    channel TEXT,
    before  TEXT,
    after   TEXT,
    detail  TEXT,
    prev    TEXT,
    hash    TEXT
) STRICT;
CREATE UNIQUE INDEX audit_by_seq ON audit (seq) WHERE seq IS NOT NULL;
CREATE INDEX audit_unlinked ON audit (ord) WHERE seq IS NULL;
CREATE INDEX audit_by_request ON audit (request, ord);
CREATE INDEX audit_by_commit ON audit (xid, ord);
CREATE INDEX audit_by_agent ON audit (agent, xid, ord);

-- One row: what the instance must remember across restarts.
CREATE TABLE instance (
    id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    high_water INTEGER NOT NULL
) STRICT;
INSERT INTO instance (id, high_water) VALUES (1, 0);
