package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// beanstalkd's protocol is text, and its own clients write it as here: a connection
// for each caller, one call at a time.
type beanstalkd struct {
	*server
	address string
}

func openBeanstalkd(ctx context.Context, l launcher, _ options) (queue, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log := filepath.Join(l.dir, "binlog")
	if err := os.Mkdir(log, 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for the log: %w", err)
	}
	cmd, err := l.forC("beanstalkd", "-l", "127.0.0.1", "-p", port, "-b", log, "-f", "0", "-z", strconv.Itoa(1<<20))
	if err != nil {
		return nil, err
	}
	s, err := l.start(cmd, nil)
	if err != nil {
		return nil, err
	}
	b := &beanstalkd{s, net.JoinHostPort("127.0.0.1", port)}
	err = s.until(ctx, func() error {
		conn, err := net.Dial("tcp", b.address)
		if err == nil {
			err = conn.Close()
		}
		return err
	})
	if err != nil {
		s.close()
		return nil, err
	}
	return b, nil
}

type beanstalkConn struct {
	net.Conn
	in *bufio.Reader
}

func (b *beanstalkd) dial(ctx context.Context) (*beanstalkConn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = conn.Close() }) // Ends a wait.
	return &beanstalkConn{conn, bufio.NewReader(conn)}, nil
}

func (b *beanstalkd) producer(ctx context.Context) (func(context.Context, []byte) error, error) {
	c, err := b.dial(ctx)
	if err != nil {
		return nil, err
	}
	return func(_ context.Context, body []byte) error {
		if _, err := fmt.Fprintf(c, "put 1024 0 3600 %d\r\n%s\r\n", len(body), body); err != nil {
			return err
		}
		return c.expect("INSERTED ")
	}, nil
}

func (c *beanstalkConn) expect(prefix string) error {
	line, err := c.in.ReadString('\n')
	if err == nil && !strings.HasPrefix(line, prefix) {
		err = fmt.Errorf("want %q, got %q", prefix, line)
	}
	return err
}

func (b *beanstalkd) work(ctx context.Context, handlers int, handled func([]byte) bool) error {
	group, groupCtx := errgroup.WithContext(ctx)
	var conns []*beanstalkConn
	for range handlers {
		c, err := b.dial(groupCtx)
		if err != nil {
			return err
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		group.Go(func() error { return c.handle(handled) })
	}
	return group.Wait()
}

// handle acks a job and reserves the next in one write, which is the most that a
// client can save.
func (c *beanstalkConn) handle(handled func([]byte) bool) error {
	ack := ""
	for {
		if _, err := io.WriteString(c, ack+"reserve-with-timeout 0\r\n"); err != nil {
			return err
		}
		if ack != "" {
			if err := c.expect("DELETED"); err != nil {
				return err
			}
		}
		id, body, err := c.reserved()
		if err != nil || id == "" {
			return err // The jobs are there before the handlers: none is left.
		}
		handled(body)
		ack = "delete " + id + "\r\n"
	}
}

func (c *beanstalkConn) reserved() (id string, body []byte, err error) {
	line, err := c.in.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "TIMED_OUT") {
		return "", nil, err
	}
	var size int
	if _, err := fmt.Sscanf(line, "RESERVED %s %d", &id, &size); err != nil {
		return "", nil, fmt.Errorf("read %q: %w", line, err)
	}
	body = make([]byte, size+len("\r\n"))
	if _, err := io.ReadFull(c.in, body); err != nil {
		return "", nil, err
	}
	return id, body[:size], nil
}
