package sinks

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	cloudv1 "github.com/corvo-cloud/corvo/control-plane/api/gen/corvo/cloud/v1"
	"github.com/corvo-cloud/corvo/control-plane/internal/egress"
	"github.com/corvo-cloud/corvo/control-plane/internal/fault"
	"github.com/corvo-cloud/corvo/control-plane/internal/seal"
	"github.com/corvo-cloud/corvo/control-plane/internal/store"
)

// target is where a sink is, as it is stored; exactly one is set.
type target struct {
	HTTPS  *httpsTarget  `json:"https,omitempty"`
	S3     *s3Target     `json:"s3,omitempty"`
	Syslog *syslogTarget `json:"syslog,omitempty"`
}

type httpsTarget struct {
	URL string `json:"url"`
}

type s3Target struct {
	Endpoint    string `json:"endpoint"`
	Region      string `json:"region"`
	Bucket      string `json:"bucket"`
	Prefix      string `json:"prefix"`
	AccessKeyID string `json:"access_key_id"`
}

type syslogTarget struct {
	Host string `json:"host"`
	Port int32  `json:"port"`
	CA   string `json:"ca_pem,omitempty"`
}

// secrets of a target, as they are sealed.
type secrets struct {
	Signing       string `json:"signing,omitempty"`
	Authorization string `json:"authorization,omitempty"`
	AccessKey     string `json:"access_key,omitempty"`
}

const (
	signingMin       = 16
	textMax          = 1024
	caMax            = 64 << 10
	syslogPort       = 6514
	portMax          = 65535
	nameMax          = 64
	objectPrefixMax  = 512
	authorizationMax = 4096
)

var (
	bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	regionForm = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	prefixForm = regexp.MustCompile(`^[A-Za-z0-9!_.*'()/=-]*$`)
	// headerForm is printable ASCII.
	headerForm = regexp.MustCompile(`^[ -~]*$`)
)

// given is the targets of a request.
type given interface {
	GetHttps() *cloudv1.HttpsAuditSink
	GetS3() *cloudv1.S3AuditSink
	GetSyslog() *cloudv1.SyslogAuditSink
}

// read checks the target of a request.
func read(g given, o egress.Options) (t target, s secrets, _ error) {
	var wrong []fault.Field
	no := func(field, problem string) { wrong = append(wrong, fault.Field{Name: field, Problem: problem}) }
	switch {
	case g.GetHttps() != nil:
		h := g.GetHttps()
		t.HTTPS, s.Signing, s.Authorization = &httpsTarget{URL: h.GetUrl()}, h.GetSigningSecret(), h.GetAuthorization()
		checkURL(o, "https.url", h.GetUrl(), no)
		if len(s.Signing) < signingMin || len(s.Signing) > textMax {
			no("https.signing_secret", fmt.Sprintf("must have %d to %d characters", signingMin, textMax))
		}
		if len(s.Authorization) > authorizationMax || !headerForm.MatchString(s.Authorization) {
			no("https.authorization", "must be a header's value: printable ASCII, 4096 characters at most")
		}
	case g.GetS3() != nil:
		b := g.GetS3()
		t.S3 = &s3Target{Endpoint: strings.TrimRight(b.GetEndpoint(), "/"), Region: b.GetRegion(), Bucket: b.GetBucket(), Prefix: b.GetPrefix(), AccessKeyID: b.GetAccessKeyId()}
		s.AccessKey = b.GetSecretAccessKey()
		checkS3(o, t.S3, s.AccessKey, no)
	case g.GetSyslog() != nil:
		l := g.GetSyslog()
		t.Syslog = &syslogTarget{Host: l.GetHost(), Port: l.GetPort(), CA: l.GetCaPem()}
		checkSyslog(o, t.Syslog, no)
	default:
		no("https", "choose a target: https, s3 or syslog")
	}
	if len(wrong) > 0 {
		return t, s, fault.InvalidFields(wrong)
	}
	return t, s, nil
}

func checkURL(o egress.Options, field, text string, no func(field, problem string)) {
	u, err := url.Parse(text)
	if err != nil || len(text) > textMax {
		no(field, "must be a URL such as https://siem.company.com/audit, 1024 characters at most")
	} else if err := o.CheckURL(u); err != nil {
		no(field, err.Error())
	}
}

func checkS3(o egress.Options, t *s3Target, secret string, no func(field, problem string)) {
	checkURL(o, "s3.endpoint", t.Endpoint, no)
	if u, err := url.Parse(t.Endpoint); err == nil && (u.Path != "" || u.RawQuery != "" || u.Fragment != "") {
		no("s3.endpoint", "must be a URL without a path, such as https://s3.eu-central-1.amazonaws.com")
	}
	if !regionForm.MatchString(t.Region) {
		no("s3.region", "must be a region such as eu-central-1")
	}
	if !bucketForm.MatchString(t.Bucket) {
		no("s3.bucket", "must be the name of a bucket: 3 to 63 lowercase letters, digits, dots and hyphens")
	}
	if len(t.Prefix) > objectPrefixMax || !prefixForm.MatchString(t.Prefix) || strings.Contains(t.Prefix, "..") || strings.HasPrefix(t.Prefix, "/") {
		no("s3.prefix", "can have letters, digits and !_.*'()/=-, 512 characters at most, and no slash at the start")
	}
	if t.AccessKeyID == "" || len(t.AccessKeyID) > textMax || !headerForm.MatchString(t.AccessKeyID) {
		no("s3.access_key_id", "is required")
	}
	if secret == "" || len(secret) > textMax {
		no("s3.secret_access_key", "is required")
	}
}

func checkSyslog(o egress.Options, t *syslogTarget, no func(field, problem string)) {
	if t.Port == 0 {
		t.Port = syslogPort
	}
	if t.Port < 1 || t.Port > portMax {
		no("syslog.port", "must be between 1 and 65535")
	} else if err := o.CheckHost(t.Host, strconv.Itoa(int(t.Port))); err != nil {
		no("syslog.host", err.Error())
	}
	if t.CA != "" && (len(t.CA) > caMax || !x509.NewCertPool().AppendCertsFromPEM([]byte(t.CA))) {
		no("syslog.ca_pem", "must be certificates in PEM, 64 KB at most")
	}
}

// keep puts a target into a record.
func keep(box *seal.Box, v *store.AuditSink, t target, s secrets) error {
	where, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("keep audit sink: %w", err)
	}
	plain, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("keep audit sink: %w", err)
	}
	v.Target = string(where)
	v.Secret, err = box.Seal(seal.AuditSink, plain)
	return err
}

// kept reads a record's target.
func kept(box *seal.Box, v store.AuditSink) (t target, s secrets, _ error) {
	if err := json.Unmarshal([]byte(v.Target), &t); err != nil {
		return t, s, fmt.Errorf("read audit sink %s: %w", v.ID, err)
	}
	plain, err := box.Open(seal.AuditSink, v.Secret)
	if err == nil {
		err = json.Unmarshal(plain, &s)
	}
	if err != nil {
		return t, s, fmt.Errorf("open the secrets of audit sink %s: %w", v.ID, err)
	}
	return t, s, nil
}

// place says a target in one line, for the audit log.
func (t target) place() string {
	switch {
	case t.HTTPS != nil:
		u, err := url.Parse(t.HTTPS.URL)
		if err != nil {
			return "https"
		}
		u.RawQuery = "" // People put tokens there.
		return u.String()
	case t.S3 != nil:
		return t.S3.Endpoint + "/" + t.S3.Bucket + "/" + t.S3.Prefix
	case t.Syslog != nil:
		return fmt.Sprintf("syslog+tls://%s:%d", t.Syslog.Host, t.Syslog.Port)
	}
	return ""
}
