package stripe

import (
	"testing"
	"time"

	"github.com/corvo-cloud/corvo/control-plane/stripetest"
)

// Whatever a body is, reading it ends, and what is read is an event of the mode.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"id":"evt_1","object":"event","type":"invoice.paid","created":1,"livemode":false,"data":{"object":{"object":"invoice","id":"in_1","customer":"cus_1"}}}`))
	f.Add([]byte(`{"id":"evt_1","object":"event","type":"invoice.paid","created":1,"livemode":true,"data":{"object":{"customer":{"id":"cus_1"}}}}`))
	f.Add([]byte(`{"object":"event","data":[]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := parse(body, Test)
		if err != nil {
			return
		}
		if e.Livemode || e.ID == "" || e.Type == "" || len(e.ID) > 255 {
			t.Errorf("accepted %+v", e)
		}
		_ = e.customer()
	})
}

// No header but one that was made with the secret is good.
func FuzzSignature(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	body := []byte(`{}`)
	f.Add(stripetest.Sign(body, "other", now))
	f.Add("t=1700000000,v1=")
	f.Add("t=1700000000,v1=00,v1=zz,v0=11,,,=")
	f.Fuzz(func(t *testing.T, header string) {
		if verify(body, header, []string{"whsec_1", "whsec_2"}, now) == nil {
			t.Errorf("accepted %q", header)
		}
	})
}
