-- Chats: who reads a platform's updates and how far, words that are owed to
-- people, and how strangers become known.
-- Times are microseconds since 1970, UTC.

CREATE TABLE readers (
    channel    TEXT    NOT NULL,
    receiver   TEXT    NOT NULL,
    position   BIGINT,
    read_at    BIGINT,
    trouble    TEXT,
    PRIMARY KEY (channel, receiver)
);

-- Words to a person. One that may have been sent is not sent again.
CREATE TABLE notices (
    id          TEXT    NOT NULL PRIMARY KEY,
    channel     TEXT    NOT NULL,
    address     TEXT    NOT NULL,
    text        TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('queued', 'sending', 'sent', 'failed')),
    attempts    BIGINT NOT NULL,
    next_at     BIGINT NOT NULL,
    created_at  BIGINT NOT NULL
);
CREATE INDEX notices_due ON notices (channel, next_at) WHERE state = 'queued';
CREATE INDEX notices_of_chat ON notices (channel, address, id) WHERE state IN ('queued', 'sending');
CREATE INDEX notices_by_age ON notices (created_at);

CREATE TABLE pairings (
    hash        TEXT    NOT NULL PRIMARY KEY,
    principal   TEXT    NOT NULL REFERENCES principals (id),
    channel     TEXT    NOT NULL,
    expires_at  BIGINT NOT NULL,
    used_at     BIGINT
);

CREATE TABLE strangers (
    channel      TEXT    NOT NULL,
    realm        TEXT    NOT NULL,
    account      TEXT    NOT NULL,
    tries        BIGINT NOT NULL,
    locked_until BIGINT NOT NULL,
    told_at      BIGINT NOT NULL,
    PRIMARY KEY (channel, realm, account)
);

-- What could not be delivered is looked for when its person is seen again.
CREATE INDEX deliveries_failed ON deliveries (binding) WHERE state = 'failed';

-- Of each conversation the oldest item is dealt with first.
CREATE INDEX inbox_of_lane ON inbox (lane, id) WHERE state = 'new';

-- A no whose reason was asked for in a conversation: the next words are it.
CREATE TABLE prompts (
    channel    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    request    TEXT    NOT NULL REFERENCES requests (id),
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (channel, address)
);
