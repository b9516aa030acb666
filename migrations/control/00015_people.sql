-- Sessions of programs, device-code sign-in, and second factors.

-- +goose Up
ALTER TABLE sessions ADD COLUMN kind TEXT NOT NULL DEFAULT 'browser'; -- browser, cli
ALTER TABLE sessions ADD COLUMN client TEXT NOT NULL DEFAULT ''; -- As a program called itself.
ALTER TABLE sessions ADD COLUMN pending TEXT NOT NULL DEFAULT ''; -- JSON, while the second factor is missing.
ALTER TABLE sessions ADD COLUMN proved_at BIGINT NOT NULL DEFAULT 0; -- When the second factor was shown last.

-- Programs that wait for a person to approve their code.
-- waiver: no tenant_id; whoever asks is not known yet.
CREATE TABLE device_logins (
    digest       TEXT   NOT NULL PRIMARY KEY, -- Of the device code.
    user_code    TEXT   NOT NULL UNIQUE, -- Worth nothing without somebody who approves it.
    client       TEXT   NOT NULL,
    peer         TEXT   NOT NULL,
    user_agent   TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    polled_at    BIGINT NOT NULL DEFAULT 0,
    interval_ns  BIGINT NOT NULL, -- Longer each time that it polls too soon.
    state        TEXT   NOT NULL, -- pending, approved, denied, used
    user_id      TEXT   NOT NULL DEFAULT '', -- Who decided,
    session_id   TEXT   NOT NULL DEFAULT '' -- and in which session.
);
CREATE INDEX device_logins_by_expiry ON device_logins (expires_at);

-- Second factors of people: passkeys and authenticator apps.
-- waiver: no tenant_id; they are a person's, in whatever tenants they are a member of.
CREATE TABLE factors (
    id           TEXT   NOT NULL PRIMARY KEY,
    user_id      TEXT   NOT NULL REFERENCES users (id),
    kind         TEXT   NOT NULL, -- passkey, totp
    name         TEXT   NOT NULL,
    secret       TEXT   NOT NULL, -- Of an app: sealed.
    credential   TEXT   NOT NULL, -- Of a passkey: JSON, nothing secret.
    step         BIGINT NOT NULL DEFAULT 0, -- The last one of an app that was used.
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL DEFAULT 0, -- 0: set up halfway; it doesn't count.
    used_at      BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX factors_by_user ON factors (user_id);

-- waiver: no tenant_id; as factors.
CREATE TABLE recovery_codes (
    user_id    TEXT   NOT NULL REFERENCES users (id),
    digest     TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (user_id, digest)
);

-- Wrong codes of a person.
-- waiver: no tenant_id; as factors.
CREATE TABLE wrong_codes (
    user_id      TEXT   NOT NULL PRIMARY KEY REFERENCES users (id),
    count        BIGINT NOT NULL,
    locked_until BIGINT NOT NULL DEFAULT 0
);
