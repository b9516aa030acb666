package statedb

// A rule that is applied decides about what is stored. Where that can not be read there is
// nothing to decide: the rule ends there and then, and the Apply of its machine answers with
// the error, which stops the node. So no rule carries that error up by hand, and none can
// lose it:
//
//	func (m *Machine) Apply(txn *statedb.Txn, e group.Entry) (result any, err error) {
//		defer func() { err = statedb.Ended(recover()) }()
//		…

// ended is the panic with which a rule ends.
type ended struct{ err error }

// Check ends the rule if there is an error.
func Check(err error) {
	if err != nil {
		panic(ended{err})
	}
}

// Must is what was read, if it could be.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// Ended is the error for which a rule ended, given what was recovered; any other panic
// goes on.
func Ended(recovered any) error {
	switch p := recovered.(type) {
	case nil:
		return nil
	case ended:
		return p.err
	default:
		panic(p)
	}
}
