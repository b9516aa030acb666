// Package cloud tests the service from outside, control plane included: sign-up and
// keys as a stranger uses them, the parts as separate processes, and what happens to
// jobs when the control plane is gone (nothing).
package cloud
