package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	nats "github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// natsQueue is a work-queue stream on files, synced before a message is acknowledged.
type natsQueue struct {
	*server
	conn   *client.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
}

// serveNATS is nats-server as a process of its own.
func serveNATS(port, dir string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return fmt.Errorf("read the port: %w", err)
	}
	s, err := nats.NewServer(&nats.Options{Host: "127.0.0.1", Port: number, JetStream: true, StoreDir: dir, SyncAlways: true, NoSigs: true})
	if err != nil {
		return fmt.Errorf("make a NATS server: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s.Start()
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func natsVersion() (string, error) { return "nats-server " + nats.VERSION, nil }

const natsSubject = "jobs"

func openNATS(ctx context.Context, l launcher, _ options) (queue, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd, err := l.forGo(self, "nats-server", port, l.dir)
	if err != nil {
		return nil, err
	}
	s, err := l.start(cmd, nil)
	if err != nil {
		return nil, err
	}
	q := &natsQueue{server: s}
	err = s.until(ctx, func() error {
		q.conn, err = client.Connect("nats://" + net.JoinHostPort("127.0.0.1", port))
		return err
	})
	if err == nil {
		err = q.setUp(ctx)
	}
	if err != nil {
		q.close()
		return nil, err
	}
	return q, nil
}

func (q *natsQueue) setUp(ctx context.Context) (err error) {
	if q.js, err = jetstream.New(q.conn); err != nil {
		return err
	}
	q.stream, err = q.js.CreateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{natsSubject}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage})
	return err
}

func (q *natsQueue) close() {
	if q.conn != nil {
		q.conn.Close()
	}
	q.server.close()
}

func (q *natsQueue) producer(context.Context) (func(context.Context, []byte) error, error) {
	return func(ctx context.Context, body []byte) error {
		_, err := q.js.Publish(ctx, natsSubject, body)
		return err
	}, nil
}

func (q *natsQueue) work(ctx context.Context, handlers int, handled func([]byte) bool) error {
	consumer, err := q.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(2 * handlers))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, messages.Stop)
	group, groupCtx := errgroup.WithContext(ctx)
	for range handlers {
		group.Go(func() error {
			for {
				m, err := messages.Next()
				if errors.Is(err, jetstream.ErrMsgIteratorClosed) {
					return ctx.Err()
				}
				if err != nil {
					return err
				}
				more := handled(m.Data())
				if err := m.DoubleAck(groupCtx); err != nil { // Waits for the server's answer.
					return err
				}
				if !more {
					messages.Stop()
				}
			}
		})
	}
	return group.Wait()
}
