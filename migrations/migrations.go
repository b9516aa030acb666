// Package migrations owns the control plane's database schema as a row of SQL files,
// forward only: what was released is never edited.
//
// It must not know who runs them. Surprising: SQLite and PostgreSQL get the same
// files, because they use no type but TEXT and BIGINT (times are Unix nanoseconds,
// lists and maps are JSON text, digests hex); what only PostgreSQL can do (row-level
// security) stands in files of its own, numbered between the others.
package migrations

import "embed"

// Control holds control/NNNNN_name.sql for both databases and
// control/postgres/NNNNN_name.sql for PostgreSQL alone, in goose's format.
//
//go:embed control
var Control embed.FS
