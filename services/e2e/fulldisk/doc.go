// Package fulldisk runs a cell on small file systems of its own, fills them, and looks at
// what is refused, what goes on, and what comes back by itself.
//
// It must not know anything of the product beside the wire and the cell's administration.
//
// Surprising: it needs the right to mount (make full-disk says so and is skipped without
// it). What a disk answers when it is full can't be had from a folder.
package fulldisk
