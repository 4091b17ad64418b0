-- Chats: who reads a platform's updates and how far, words that are owed to
-- people, and how strangers become known.
-- Times are microseconds since 1970, UTC.

CREATE TABLE readers (
    channel    TEXT    NOT NULL,
    receiver   TEXT    NOT NULL,
    position   INTEGER,
    read_at    INTEGER,
    trouble    TEXT,
    PRIMARY KEY (channel, receiver)
) STRICT;

-- Words to a person. One that may have been sent is not sent again.
CREATE TABLE notices (
    id          TEXT    NOT NULL PRIMARY KEY,
    channel     TEXT    NOT NULL,
    address     TEXT    NOT NULL,
    text        TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'failed')),
    attempts    INTEGER NOT NULL,
    next_at     INTEGER NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX notices_due ON notices (channel, next_at) WHERE state = 'queued';
CREATE INDEX notices_of_chat ON notices (channel, address, id) WHERE state IN ('queued', 'sending');
CREATE INDEX notices_by_age ON notices (created_at);

CREATE TABLE pairings (
    hash        TEXT    NOT NULL PRIMARY KEY,
    principal   TEXT    NOT NULL REFERENCES principals (id),
    channel     TEXT    NOT NULL,
    expires_at  INTEGER NOT NULL,
    used_at     INTEGER
) STRICT;

CREATE TABLE strangers (
    channel      TEXT    NOT NULL,
    realm        TEXT    NOT NULL,
    account      TEXT    NOT NULL,
    tries        INTEGER NOT NULL,
    locked_until INTEGER NOT NULL,
    told_at      INTEGER NOT NULL,
    PRIMARY KEY (channel, realm, account)
) STRICT;

-- What could not be delivered is looked for when its person is seen again.
CREATE INDEX deliveries_failed ON deliveries (binding) WHERE state = 'failed';

-- Of each conversation the oldest item is dealt with first.
CREATE INDEX inbox_of_lane ON inbox (lane, id) WHERE state = 'new';

-- A no whose reason was asked for in a conversation: the next words are it.
CREATE TABLE prompts (
    channel    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    request    TEXT    NOT NULL REFERENCES requests (id),
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (channel, address)
) STRICT;
