package corvo

import "runtime"

func exitGoroutine() { runtime.Goexit() }
