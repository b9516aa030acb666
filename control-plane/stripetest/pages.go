package stripetest

import (
	"bytes"
	"crypto/subtle"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Pages have no scripts, and lead to where they were asked to lead back to.
const pageSecurity = "default-src 'none'; style-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"

var (
	//go:embed pages.html
	pagesText string
	//go:embed pages.css
	styleText []byte

	pages = template.Must(template.New("pages").Funcs(template.FuncMap{"count": count, "money": money, "day": day, "unix": unix}).Parse(pagesText))
)

// view is what the pages show.
type view struct {
	Secret   string
	Problem  string
	Customer object
	Page     object // Of a checkout or the portal.
	Sub      object // Nil for none.
	Card     string
	Invoice  object
	Invoices []object // Newest first.
	Items    []object // What is bought, or is on the invoice.
	Title    string   // Of the plan.
}

// page answers what people see: below the secret, a checkout, a portal and an invoice.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", pageSecurity)
	s.mu.Lock()
	defer s.mu.Unlock()
	path := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case subtle.ConstantTimeCompare([]byte(path[0]), []byte(s.has.Secret)) != 1:
		notFound(w)
	case len(path) == 2 && path[1] == "pages.css":
		h.Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(styleText) // The asker is gone: nobody to tell.
	case len(path) == 3 && path[1] == "checkout":
		s.checkoutPage(w, r, s.find("checkout.session", path[2]))
	case len(path) == 3 && path[1] == "portal":
		s.portalPage(w, r, s.find("billing_portal.session", path[2]))
	case len(path) == 3 && path[1] == "invoice":
		s.invoicePage(w, r, s.find("invoice", path[2]))
	default:
		notFound(w)
	}
}

func notFound(w http.ResponseWriter) {
	http.Error(w, "Page not found. Open it from the console again.", http.StatusNotFound)
}

// checkoutPage is where a plan is paid for.
func (s *Server) checkoutPage(w http.ResponseWriter, r *http.Request, page object) {
	if page == nil {
		notFound(w)
		return
	}
	v := view{Page: page, Customer: s.find("customer", page.text("customer")), Title: s.title(first(page))}
	for _, item := range page["the items"].([]object) {
		v.Items = append(v.Items, s.shownPrice(item["price"].(object)))
	}
	// Again, or in another window: it is paid once.
	if r.Method == http.MethodPost && page.text("status") == "open" {
		if r.PostFormValue("do") != "pay" {
			v.Problem = "The card was declined. Nothing was bought. Try again with the other card."
			s.show(w, http.StatusPaymentRequired, "checkout", v)
			return
		}
		s.begin(page)
		s.leave(w, r, page.text("success_url"))
		return
	}
	s.show(w, http.StatusOK, "checkout", v)
}

func first(page object) object { return page["the items"].([]object)[0]["price"].(object) }

// portalPage is where a customer changes the card, pays what is open, and ends the plan.
func (s *Server) portalPage(w http.ResponseWriter, r *http.Request, page object) {
	if page == nil {
		notFound(w)
		return
	}
	customer := s.find("customer", page.text("customer"))
	sub := s.subscriptionOf(customer)
	if r.Method == http.MethodPost {
		s.inPortal(r, customer, sub)
		s.leave(w, r, page.text("url"))
		return
	}
	v := view{Page: page, Customer: customer, Sub: sub, Card: customer["invoice_settings"].(object).text("default_payment_method")}
	if sub != nil {
		v.Card, v.Title = s.card(sub, sub), s.title(prices(sub)[0])
	}
	for _, i := range newestFirst(s.has.Objects["invoice"]) {
		if i.text("customer") == customer.id() {
			v.Invoices = append(v.Invoices, i)
		}
	}
	s.show(w, http.StatusOK, "portal", v)
}

// inPortal does what a button says, if it can be done still.
func (s *Server) inPortal(r *http.Request, customer, sub object) {
	switch do := r.PostFormValue("do"); {
	case do == cardPays || do == cardDeclined:
		s.changeCard(customer, do)
	case do == "end" && sub != nil:
		_, _ = s.endSubscription(sub.id(), nil) // It lives: it was looked up now.
	case do == "renew" && sub != nil:
		s.renew(sub)
	}
}

// subscriptionOf is the one that lives.
func (s *Server) subscriptionOf(customer object) object {
	for _, sub := range newestFirst(s.has.Objects["subscription"]) {
		if sub.text("customer") == customer.id() && sub.text("status") != "canceled" {
			return sub
		}
	}
	return nil
}

// invoicePage shows an invoice, and takes the money for it.
func (s *Server) invoicePage(w http.ResponseWriter, r *http.Request, invoice object) {
	if invoice == nil {
		notFound(w)
		return
	}
	v := view{Invoice: invoice, Customer: s.find("customer", invoice.text("customer")), Items: invoice["lines"].(object)["data"].([]object)}
	if r.Method == http.MethodPost && invoice.text("status") == "open" {
		if r.PostFormValue("do") != "pay" {
			v.Problem = "The card was declined. The invoice isn't paid."
			s.show(w, http.StatusPaymentRequired, "invoice", v)
			return
		}
		s.settle(invoice)
		s.leave(w, r, invoice.text("hosted_invoice_url"))
		return
	}
	s.show(w, http.StatusOK, "invoice", v)
}

// leave keeps what was done and goes on to another page.
func (s *Server) leave(w http.ResponseWriter, r *http.Request, to string) {
	if err := s.keep(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

func (s *Server) show(w http.ResponseWriter, status int, name string, v view) {
	v.Secret = s.has.Secret
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, name, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if v.Page != nil {
		// A form's answer that leads elsewhere is a part of the form to a browser.
		w.Header().Set("Content-Security-Policy", pageSecurity+" "+origin(v.Page.text("success_url")))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // The asker is gone: nobody to tell.
}

func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// shownPrice is what a price says to people.
func (s *Server) shownPrice(price object) object {
	meter := s.find("billing.meter", price["recurring"].(object).text("meter"))
	if meter == nil {
		return object{"title": s.title(price), "price": money(price["unit_amount"].(int64)) + " a month"}
	}
	included, beyond := int64(0), price
	if tiers, tiered := price["tiers"].([]object); tiered {
		included, beyond = tiers[0]["up_to"].(int64), tiers[len(tiers)-1]
	}
	const per = 1_000_000
	return object{"title": meter.text("display_name"), "price": fmt.Sprintf("%s included, then %s for %s", count(included), money(costs(beyond, per)), count(per))}
}

// count is a number with commas.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

func money(amount int64) string { return fmt.Sprintf("$%s.%02d", count(amount/100), amount%100) }

func unix(t int64) string { return time.Unix(t, 0).UTC().Format(time.RFC3339) }

func day(t int64) string { return time.Unix(t, 0).UTC().Format("Jan 2, 2006") }
