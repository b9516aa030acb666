package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqQueue is asynq on a Redis that syncs its append-only file before it answers.
type asynqQueue struct {
	*server
	redis  asynq.RedisClientOpt
	client *asynq.Client
}

func openAsynq(ctx context.Context, l launcher, _ options) (queue, error) { return startAsynq(ctx, l) }

// silent keeps go-redis from writing about connections that a run's end breaks.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func startAsynq(ctx context.Context, l launcher) (*asynqQueue, error) {
	redis.SetLogger(silent{})
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd, err := l.forC("redis-server", "--bind", "127.0.0.1", "--port", port, "--dir", l.dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		return nil, err
	}
	s, err := l.start(cmd, nil)
	if err != nil {
		return nil, err
	}
	// A pool as large as there are callers, so that none waits for a connection.
	opt := asynq.RedisClientOpt{Addr: net.JoinHostPort("127.0.0.1", port), PoolSize: 2 * fillers}
	q := &asynqQueue{s, opt, asynq.NewClient(opt)}
	if err := s.until(ctx, q.client.Ping); err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (q *asynqQueue) close() {
	_ = q.client.Close() // The run is over.
	q.server.close()
}

const asynqTask = "job"

func (q *asynqQueue) producer(context.Context) (func(context.Context, []byte) error, error) {
	return func(ctx context.Context, body []byte) error {
		_, err := q.client.EnqueueContext(ctx, asynq.NewTask(asynqTask, body))
		return err
	}, nil
}

func (q *asynqQueue) work(ctx context.Context, handlers int, handled func([]byte) bool) error {
	ended, end := context.WithCancel(ctx)
	defer end()
	server := asynq.NewServer(q.redis, asynq.Config{Concurrency: handlers, LogLevel: asynq.FatalLevel})
	err := server.Start(asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		if !handled(t.Payload()) {
			end()
		}
		return nil
	}))
	if err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	<-ended.Done()
	if err := q.settled(ctx); err != nil {
		return err
	}
	// The measured phase ends here; stopping asynq takes seconds.
	go server.Shutdown()
	return ctx.Err()
}

// settled waits until Redis has the last ack.
func (q *asynqQueue) settled(ctx context.Context) error {
	inspector := asynq.NewInspector(q.redis)
	defer inspector.Close()
	for ctx.Err() == nil {
		info, err := inspector.GetQueueInfo("default")
		if err != nil {
			return fmt.Errorf("look at the queue: %w", err)
		}
		if info.Size == 0 {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}

// readAtOnce is how many tasks are read with one call.
const readAtOnce = 1000

// read finds all tasks in the list from which asynq's server takes them. It takes one at a time,
// each with syncs of its own.
func (q *asynqQueue) read(ctx context.Context, found func(body []byte)) error {
	client := redis.NewClient(&redis.Options{Addr: q.redis.Addr})
	defer client.Close()
	for from := int64(0); ; from += readAtOnce {
		ids, err := client.LRange(ctx, "asynq:{default}:pending", from, from+readAtOnce-1).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		messages, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, id := range ids {
				p.HGet(ctx, "asynq:{default}:t:"+id, "msg")
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) { // A task that is gone is lost, which the account says.
			return err
		}
		for _, m := range messages {
			if text := m.(*redis.StringCmd).Val(); text != "" {
				found([]byte(text[max(0, strings.Index(text, payloadOpen)):]))
			}
		}
	}
}

func asynqVersion() (string, error) {
	out, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("redis-server (install the peers with `make peers`): %w", err)
	}
	_, rest, _ := strings.Cut(string(out), "v=")
	redis, _, _ := strings.Cut(rest, " ")
	return fmt.Sprintf("asynq %s on Redis %s", moduleVersion("github.com/hibiken/asynq"), redis), nil
}

func moduleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "unknown"
}

// asynqRaw adds jobs as asynq does, without what asynq's client costs: one connection
// for each producer, and the same script on the same keys, written by hand.
type asynqRaw struct {
	*asynqQueue
	// message is a task as asynq encodes it, with taskID and the number of its payload
	// where those of the others go.
	message []byte
	taskID  string
}

// enqueueScript is asynq's own to the byte (internal/rdb, enqueueCmd), so that Redis
// has it once asynq's client has added the first job.
const enqueueScript = `
if redis.call("EXISTS", KEYS[1]) == 1 then
	return 0
end
redis.call("HSET", KEYS[1],
           "msg", ARGV[1],
           "state", "pending",
           "pending_since", ARGV[3])
redis.call("LPUSH", KEYS[2], ARGV[2])
return 1
`

// scriptSum is the name under which Redis keeps the script.
func scriptSum() string {
	sum := sha1.Sum([]byte(enqueueScript))
	return hex.EncodeToString(sum[:])
}

func openAsynqRaw(ctx context.Context, l launcher, o options) (queue, error) {
	q, err := startAsynq(ctx, l)
	if err != nil {
		return nil, err
	}
	raw := &asynqRaw{asynqQueue: q}
	if err := raw.learn(ctx, payload(0, o.payloadBytes)); err != nil {
		q.close()
		return nil, err
	}
	return raw, nil
}

// learn lets asynq encode one task, and takes it out again.
func (q *asynqRaw) learn(ctx context.Context, body []byte) error {
	client := redis.NewClient(&redis.Options{Addr: q.redis.Addr})
	defer client.Close()
	info, err := q.client.EnqueueContext(ctx, asynq.NewTask(asynqTask, body))
	if err != nil {
		return err
	}
	if q.message, err = client.HGet(ctx, "asynq:{default}:t:"+info.ID, "msg").Bytes(); err != nil {
		return err
	}
	q.taskID = info.ID
	inspector := asynq.NewInspector(q.redis)
	defer inspector.Close()
	if err := inspector.DeleteTask("default", info.ID); err != nil {
		return err
	}
	known, err := client.ScriptExists(ctx, scriptSum()).Result()
	if err == nil && !known[0] {
		err = errors.New("this asynq enqueues by another script")
	}
	return err
}

func (q *asynqRaw) producer(ctx context.Context) (func(context.Context, []byte) error, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", q.redis.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = c.Close() }) // Ends a wait.
	in := bufio.NewReader(c)
	script := scriptSum()
	var out []byte
	return func(ctx context.Context, body []byte) error {
		id := newUUID()
		out = appendRESP(out[:0], "EVALSHA", script, "2", "asynq:{default}:t:"+id, "asynq:{default}:pending", string(q.encode(id, body)), id,
			strconv.FormatInt(time.Now().UnixNano(), 10))
		if _, err := c.Write(out); err != nil {
			return err
		}
		line, err := in.ReadString('\n')
		if err == nil && line != ":1\r\n" {
			err = fmt.Errorf("want 1, got %q", line)
		}
		return err
	}, nil
}

// encode is asynq's encoding of a task: protobuf, so that texts of the same length
// can stand in for each other.
func (q *asynqRaw) encode(id string, body []byte) []byte {
	message := bytes.Replace(q.message, []byte(q.taskID), []byte(id), 1)
	at := bytes.Index(message, []byte(payloadOpen))
	copy(message[at:], body)
	return message
}

func appendRESP(to []byte, args ...string) []byte {
	to = append(strconv.AppendInt(append(to, '*'), int64(len(args)), 10), "\r\n"...)
	for _, a := range args {
		to = append(strconv.AppendInt(append(to, '$'), int64(len(a)), 10), "\r\n"...)
		to = append(append(to, a...), "\r\n"...)
	}
	return to
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // Never fails.
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
