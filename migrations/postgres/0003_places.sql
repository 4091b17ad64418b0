-- Places: conversations that others read too and that somebody we know has led us
-- to, what doesn't work there; codes that were guessed; and what is due, found
-- without looking at what isn't.
-- Times are microseconds since 1970, UTC.

CREATE TABLE places (
    channel    TEXT    NOT NULL,
    address    TEXT    NOT NULL,
    seen_at    BIGINT NOT NULL,
    looked_at  BIGINT NOT NULL,
    limits     TEXT,
    closed     TEXT,
    PRIMARY KEY (channel, address)
);
CREATE INDEX places_to_look_at ON places (channel, looked_at);

-- Codes of requests that an account named in vain.
CREATE TABLE guesses (
    channel      TEXT    NOT NULL,
    realm        TEXT    NOT NULL,
    account      TEXT    NOT NULL,
    since        BIGINT NOT NULL,
    tries        BIGINT NOT NULL,
    locked_until BIGINT NOT NULL,
    PRIMARY KEY (channel, realm, account)
);

-- Cards that stand and don't show what they should, and cards that don't stand
-- yet: each channel looks for its own, however many wait in another.
DROP INDEX deliveries_due;
CREATE INDEX deliveries_edits_due ON deliveries (channel, next_at)
    WHERE shown_version < desired_version AND message IS NOT NULL;
CREATE INDEX deliveries_posts_due ON deliveries (channel, next_at)
    WHERE shown_version < desired_version AND message IS NULL;
DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (kind, next_at) WHERE state = 'ready';
CREATE INDEX requests_open ON requests (guardian, deadline) WHERE status = 'pending';
