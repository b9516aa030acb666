package store

import (
	"context"
	"time"
)

var deviceLogins = table[DeviceLogin]{
	name: "device_logins", columns: "digest, user_code, client, peer, user_agent, created_at, expires_at, polled_at, interval_ns, state, user_id, session_id",
	fields: func(v *DeviceLogin) []any {
		return []any{&v.Digest, &v.UserCode, &v.Client, &v.Peer, &v.UserAgent, asTime{&v.CreatedAt}, asTime{&v.ExpiresAt}, asTime{&v.PolledAt},
			&v.Interval, &v.State, &v.UserID, &v.SessionID}
	},
}

// InsertDeviceLogin begins one; ErrExists if the user code is taken.
func (t *Tx) InsertDeviceLogin(ctx context.Context, v DeviceLogin) error {
	return deviceLogins.insert(ctx, t.common(), v)
}

// LockDeviceLogin finds the one of a device code. Of two concurrent calls the second
// waits for the first.
func (t *Tx) LockDeviceLogin(ctx context.Context, digest string) (DeviceLogin, error) {
	return deviceLogins.get(ctx, t.common(), "digest = ?"+t.dialect.lockRows, digest)
}

// GetDeviceLoginByCode finds the one of a user code.
func (t *Tx) GetDeviceLoginByCode(ctx context.Context, userCode string) (DeviceLogin, error) {
	return deviceLogins.get(ctx, t.common(), "user_code = ?", userCode)
}

// PollDeviceLogin records a poll.
func (t *Tx) PollDeviceLogin(ctx context.Context, v DeviceLogin) error {
	return t.common().change(ctx, "poll device login", "UPDATE device_logins SET polled_at = ?, interval_ns = ? WHERE digest = ?", v.PolledAt, v.Interval, v.Digest)
}

// DecideDeviceLogin records what a person decided, once: ErrNotFound if somebody has.
func (t *Tx) DecideDeviceLogin(ctx context.Context, v DeviceLogin) error {
	return t.common().change(ctx, "decide device login", "UPDATE device_logins SET state = ?, user_id = ?, session_id = ? WHERE digest = ? AND state = 'pending'",
		v.State, v.UserID, v.SessionID, v.Digest)
}

// UseDeviceLogin records that its session was handed out, once.
func (t *Tx) UseDeviceLogin(ctx context.Context, digest string) error {
	return t.common().change(ctx, "use device login", "UPDATE device_logins SET state = 'used' WHERE digest = ? AND state = 'approved'", digest)
}

// DeleteDeviceLoginsBefore deletes expired ones and counts them.
func (t *Tx) DeleteDeviceLoginsBefore(ctx context.Context, expired time.Time) (int, error) {
	return t.common().exec(ctx, "delete expired device logins", "DELETE FROM device_logins WHERE expires_at < ?", expired)
}
