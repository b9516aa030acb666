package mail

import (
	"bytes"
	"embed"
	"fmt"
	htmltemplate "html/template"
	"strconv"
	"strings"
	texttemplate "text/template"
	"time"
)

//go:embed templates
var templates embed.FS

var (
	emailHTML = htmltemplate.Must(htmltemplate.ParseFS(templates, "templates/email.html"))
	emailText = texttemplate.Must(texttemplate.ParseFS(templates, "templates/email.txt"))
)

// Message is an email ready to leave.
type Message struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
	// ExpiresAt is when the email is not worth sending any more.
	ExpiresAt time.Time `json:"expires_at"`
}

// content is what the templates fill in.
type content struct {
	Subject string
	Title   string
	Intro   []string
	// Commands do the same as the link, for somebody to copy.
	Commands []string
	// Link and Label are the one thing to do; Code is the other way to do it.
	Link, Label string
	Code        string
	// Outro follows the link: how long it works, what to do if one never asked.
	Outro []string
}

// Signup asks to confirm an address; code can be typed where a link cannot be opened.
func Signup(to, tenant, link, code string, life time.Duration, now time.Time) (Message, error) {
	return compose(to, now.Add(life), content{
		Subject: fmt.Sprintf("Confirm your sign-up for %s: %s", tenant, code),
		Title:   "Confirm your email address",
		Intro:   []string{fmt.Sprintf("Confirm your email address to create %s on Corvo Cloud.", tenant)},
		Link:    link, Label: "Confirm and create " + tenant,
		Code: code,
		Outro: []string{
			fmt.Sprintf("The link and the code expire in %s and can be used once.", minutes(life)),
			"If you didn't request this email, you can ignore it. Don't forward it: anyone with the link can confirm in your name.",
		},
	})
}

// Login carries a sign-in link.
func Login(to, link string, life time.Duration, now time.Time) (Message, error) {
	return compose(to, now.Add(life), content{
		Subject: "Your sign-in link for Corvo Cloud",
		Title:   "Sign in to Corvo Cloud",
		Intro:   []string{"Use this link to sign in."},
		Link:    link, Label: "Sign in",
		Outro: afterSignIn(life),
	})
}

// LoginInvited carries a sign-in link that also accepts an invitation.
func LoginInvited(to, tenant, link string, life time.Duration, now time.Time) (Message, error) {
	return compose(to, now.Add(life), content{
		Subject: fmt.Sprintf("Sign in to join %s on Corvo Cloud", tenant),
		Title:   "Sign in and join " + tenant,
		Intro:   []string{fmt.Sprintf("You were invited to %s. This link signs you in to your account and accepts the invitation.", tenant)},
		Link:    link, Label: "Sign in and join " + tenant,
		Outro: afterSignIn(life),
	})
}

func afterSignIn(life time.Duration) []string {
	return []string{
		fmt.Sprintf("This link expires in %s and can be used once.", minutes(life)),
		"If you didn't request this email, you can ignore it. Don't forward it: anyone with the link can sign in as you.",
	}
}

// NoAccount answers a sign-in for an address that no account has, so that its owner is
// not left waiting and whoever asked learns nothing.
func NoAccount(to, signup string, life time.Duration, now time.Time) (Message, error) {
	return compose(to, now.Add(life), content{
		Subject: "Sign-in to Corvo Cloud: no account for this address",
		Title:   "No account for this address",
		Intro: []string{
			"Someone tried to sign in to Corvo Cloud with this email address, but there is no account for it.",
			"If your company uses single sign-on, start from the link your administrator gave you.",
		},
		Link: signup, Label: "Create an account",
		Outro: []string{"If this wasn't you, you can ignore this email."},
	})
}

// Invitation asks somebody into a tenant.
func Invitation(to, tenant, role, invitedBy, link string, life time.Duration, now time.Time) (Message, error) {
	from := "You've been invited"
	if invitedBy != "" {
		from = invitedBy + " has invited you"
	}
	return compose(to, now.Add(life), content{
		Subject: fmt.Sprintf("Join %s on Corvo Cloud", tenant),
		Title:   "Join " + tenant,
		Intro:   []string{fmt.Sprintf("%s to join %s on Corvo Cloud with the %s role.", from, tenant, role)},
		Link:    link, Label: "Accept invitation",
		Outro: []string{
			fmt.Sprintf("This link expires in %d days and can be used once.", int(life.Hours()/24)),
			"If you weren't expecting this invitation, you can ignore this email.",
		},
	})
}

// DomainRecordMissing warns that a domain will not be verified any more.
func DomainRecordMissing(to, tenant, domain, txtName, txtValue, link string, until time.Time, life time.Duration, now time.Time) (Message, error) {
	return compose(to, now.Add(life), content{
		Subject: fmt.Sprintf("The DNS record of %s is missing", domain),
		Title:   "The DNS record of " + domain + " is missing",
		Intro: []string{
			fmt.Sprintf("%s is a verified domain of %s, but its TXT record isn't in DNS any more. Add it again until %s; otherwise the domain stops being verified.",
				domain, tenant, until.UTC().Format("2006-01-02 15:04 UTC")),
			fmt.Sprintf("Name: %s", txtName),
			fmt.Sprintf("Value: %s", txtValue),
		},
		Link: link, Label: "Open domains",
		Outro: []string{"If you don't use this domain any more, delete it there."},
	})
}

// DomainUnverified tells that a domain is not verified any more.
func DomainUnverified(to, tenant, domain, why, link string, life time.Duration, now time.Time) (Message, error) {
	return compose(to, now.Add(life), content{
		Subject: fmt.Sprintf("%s isn't a verified domain any more", domain),
		Title:   domain + " isn't verified any more",
		Intro: []string{
			fmt.Sprintf("%s stopped being a verified domain of %s: %s.", domain, tenant, why),
			"People with an address of the domain aren't sent to your identity provider by their address any more. The sign-in URL of single sign-on still works.",
		},
		Link: link, Label: "Open domains",
		Outro: []string{"To verify the domain again, add its TXT record and check it there."},
	})
}

// BreakGlassUsed tells an owner that somebody came in without single sign-on.
func BreakGlassUsed(to, tenant, who, peer, link string, now, until time.Time, left int) (Message, error) {
	return compose(to, now.Add(breakGlassLife), content{
		Subject: fmt.Sprintf("A break-glass code of %s was used", tenant),
		Title:   "A break-glass code was used",
		Intro: []string{
			fmt.Sprintf("%s used a break-glass code from %s at %s. %s requires single sign-on; this session enters without it until %s.",
				who, peer, now.UTC().Format(mailTime), tenant, until.UTC().Format(mailTime)),
			fmt.Sprintf("Codes left: %d. If you don't know why, remove %s and make new codes.", left, who),
		},
		Link: link, Label: "Open the audit log",
		Outro: []string{"You get this email because you are an owner of " + tenant + "."},
	})
}

// EndingKey is what somebody is told of a key that will end.
type EndingKey struct {
	Name, ID, Prefix string
	// Owner is whose key it is, in words.
	Owner string
	Ends  time.Time
	// Later is an end that could be chosen instead.
	Later time.Time
}

// KeyEnds tells that an API key will expire.
func KeyEnds(to, tenant, link string, k EndingKey, now time.Time) (Message, error) {
	left := timeLeft(k.Ends.Sub(now))
	return compose(to, k.Ends, content{
		Subject: fmt.Sprintf("API key %s of %s expires in %s", printable(k.Name), tenant, left),
		Title:   "An API key expires in " + left,
		Intro: []string{
			fmt.Sprintf("The API key %s of %s in %s expires at %s. From then on, calls with it are refused.", printable(k.Name), printable(k.Owner), tenant, k.Ends.UTC().Format(mailTime)),
			fmt.Sprintf("ID: %s. The key begins with %s.", k.ID, k.Prefix),
			"To keep the key, give it a later end. To replace its secret too, rotate it; that doesn't change its end. If it isn't needed any more, revoke it or do nothing.",
		},
		Commands: []string{
			fmt.Sprintf("corvo keys update %s --tenant %s --expires %s", k.ID, tenant, k.Later.UTC().Format(time.DateOnly)),
			fmt.Sprintf("corvo keys rotate %s --tenant %s --overlap 24h", k.ID, tenant),
			fmt.Sprintf("corvo keys revoke %s --tenant %s", k.ID, tenant),
		},
		Link: link, Label: "Open API keys",
		Outro: []string{"If the sign-in policy of " + tenant + " doesn't allow a later end, create a new key and put it in the place of this one."},
	})
}

// endingShown keys are listed in one email; of the rest it says how many there are.
const endingShown = 50

// KeysEnd tells that API keys will expire, the first to end first.
func KeysEnd(to, tenant, link string, keys []EndingKey, now time.Time) (Message, error) {
	if len(keys) == 1 {
		return KeyEnds(to, tenant, link, keys[0], now)
	}
	left := timeLeft(keys[0].Ends.Sub(now))
	intro := []string{fmt.Sprintf("%d API keys in %s expire, the first in %s. From then on, calls with them are refused.", len(keys), tenant, left)}
	for _, k := range keys[:min(len(keys), endingShown)] {
		intro = append(intro, fmt.Sprintf("%s of %s (%s, begins with %s) expires at %s.", printable(k.Name), printable(k.Owner), k.ID, k.Prefix, k.Ends.UTC().Format(mailTime)))
	}
	if more := len(keys) - endingShown; more > 0 {
		intro = append(intro, fmt.Sprintf("And %d more; the console lists them all.", more))
	}
	first := keys[0]
	return compose(to, keys[len(keys)-1].Ends, content{
		Subject: fmt.Sprintf("%d API keys of %s expire, the first in %s", len(keys), tenant, left),
		Title:   fmt.Sprintf("%d API keys expire", len(keys)),
		Intro:   append(intro, "To keep a key, give it a later end. To replace its secret too, rotate it; that doesn't change its end. If it isn't needed any more, revoke it or do nothing. For the first one:"),
		Commands: []string{
			fmt.Sprintf("corvo keys update %s --tenant %s --expires %s", first.ID, tenant, first.Later.UTC().Format(time.DateOnly)),
			fmt.Sprintf("corvo keys rotate %s --tenant %s --overlap 24h", first.ID, tenant),
			fmt.Sprintf("corvo keys revoke %s --tenant %s", first.ID, tenant),
		},
		Link: link, Label: "Open API keys",
		Outro: []string{"If the sign-in policy of " + tenant + " doesn't allow a later end, create a new key and put it in the place of the old one."},
	})
}

// timeLeft is a time before an end in whole days or hours, not more than there are. Half an
// hour is given: what is due at 14 days is written some seconds later.
func timeLeft(d time.Duration) string {
	if d < time.Hour {
		return "less than an hour"
	}
	d += 30 * time.Minute
	n, unit := int(d/(24*time.Hour)), "day"
	if n < 2 {
		n, unit = int(d/time.Hour), "hour"
	}
	if n != 1 {
		unit += "s"
	}
	return fmt.Sprintf("%d %s", n, unit)
}

// printable makes a name that people chose fit for a subject.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, s)
}

// limitLife is how long an email about a limit is worth sending.
const limitLife = 3 * 24 * time.Hour

// JobsLimit says how many of a month's jobs are used, and what happens beyond.
func JobsLimit(to, tenant, link string, percent int, used, most int64, rejects bool, until, now time.Time) (Message, error) {
	beyond := "no attempts start: jobs wait, and nothing is lost"
	if rejects {
		beyond = "no jobs can be enqueued; those that are enqueued run"
	}
	return limit(to, tenant, link, percent, "jobs for this month", fmt.Sprintf("%s of the %s jobs that its plan has for a month", grouped(used), grouped(most)), beyond, until, now)
}

// SpendLimit says how much of a spend limit is used, and what happens beyond.
func SpendLimit(to, tenant, link string, percent int, spent, most int64, currency, action string, until, now time.Time) (Message, error) {
	beyond := map[string]string{
		"alert": "you only get this email: nothing is held back", "hold": "no attempts start: jobs wait, and nothing is lost",
		"reject": "no attempts start and no jobs can be enqueued; jobs that are enqueued wait, and nothing is lost",
	}[action]
	return limit(to, tenant, link, percent, "spend limit", fmt.Sprintf("%s of its spend limit of %s", Money(spent, currency), Money(most, currency)), beyond, until, now)
}

// OpenJobsLimit says how many open jobs the fullest namespace has, and what happens beyond.
func OpenJobsLimit(to, tenant, link string, percent int, open, most int64, now time.Time) (Message, error) {
	title := fmt.Sprintf("A namespace has %d%% of its open jobs", percent)
	if percent >= 100 {
		title = "A namespace is at its limit of open jobs"
	}
	return compose(to, now.Add(limitLife), content{
		Subject: fmt.Sprintf("%s: %s", tenant, title),
		Title:   title,
		Intro: []string{
			fmt.Sprintf("The fullest namespace of %s has %s open jobs. Its plan allows %s in each.", tenant, grouped(open), grouped(most)),
			"At the limit, the namespace rejects new jobs until some of its jobs finish.",
		},
		Link: link, Label: "Usage and limits of " + tenant,
	})
}

func limit(to, tenant, link string, percent int, what, used, beyond string, until, now time.Time) (Message, error) {
	title, then := fmt.Sprintf("%d%% of the %s used", percent, what), "Beyond it"
	if percent >= 100 {
		title, then = "Spend limit reached", "Until then"
		if what != "spend limit" {
			title = fmt.Sprintf("All %s used", what)
		}
	}
	return compose(to, now.Add(limitLife), content{
		Subject: fmt.Sprintf("%s: %s", tenant, title),
		Title:   title,
		Intro: []string{
			fmt.Sprintf("%s has used %s. The month ends at %s.", tenant, used, until.UTC().Format(mailTime)),
			fmt.Sprintf("%s, %s.", then, beyond),
		},
		Link: link, Label: "Usage and limits of " + tenant,
	})
}

// grouped is a number with commas.
func grouped(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Money is an amount as people read it.
func Money(amount int64, currency string) string {
	text := fmt.Sprintf("%s.%02d", grouped(amount/100), amount%100)
	if currency == "usd" {
		return "$" + text
	}
	return text + " " + strings.ToUpper(currency)
}

const (
	// breakGlassLife is how long it is tried to deliver such an email.
	breakGlassLife = 7 * 24 * time.Hour
	mailTime       = "2006-01-02 15:04 UTC"
)

func compose(to string, expires time.Time, l content) (Message, error) {
	if strings.ContainsFunc(l.Subject, isControl) {
		return Message{}, fmt.Errorf("compose email: the subject has control characters")
	}
	var html, text bytes.Buffer
	if err := emailHTML.Execute(&html, l); err != nil {
		return Message{}, fmt.Errorf("compose email: %w", err)
	}
	if err := emailText.Execute(&text, l); err != nil {
		return Message{}, fmt.Errorf("compose email: %w", err)
	}
	return Message{To: to, Subject: l.Subject, Text: text.String(), HTML: html.String(), ExpiresAt: expires}, nil
}

func isControl(r rune) bool {
	return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u2028' || r == '\u2029'
}

func minutes(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }

// PlanKept tells an owner that a smaller plan was too small when its time came.
func PlanKept(to, tenant, plan, next string, problems []string, link string, now time.Time) (Message, error) {
	return compose(to, now.Add(planKeptLife), content{
		Subject: fmt.Sprintf("%s keeps the plan %s", tenant, plan),
		Title:   fmt.Sprintf("%s keeps the plan %s", tenant, plan),
		Intro: append([]string{
			fmt.Sprintf("The plan of %s didn't change to %s, because that plan is too small for what %[1]s has:", tenant, next),
		}, problems...),
		Link: link, Label: "Open settings",
		Outro: []string{"To change to the smaller plan, remove what doesn't fit and choose the plan again."},
	})
}

// planKeptLife: after days the tenant may stand elsewhere.
const planKeptLife = 72 * time.Hour

// dunningLife is how long it is tried to deliver an email about a payment.
const dunningLife = 7 * 24 * time.Hour

// Dunning tells those who pay that a tenant's state has changed because of a bill: to is the
// new state, and until when the next one follows.
func Dunning(email, tenant, to, link string, now, until time.Time) (Message, error) {
	l := content{Link: link, Label: "Open billing"}
	next := until.UTC().Format(mailTime)
	switch to {
	case "past_due":
		l.Subject, l.Title = fmt.Sprintf("A payment for %s failed", tenant), "A payment failed"
		l.Intro = []string{
			fmt.Sprintf("The last invoice of %s couldn't be paid. Check the payment method and pay the invoice.", tenant),
			fmt.Sprintf("Nothing changes for now. If the invoice isn't paid by %s, %s is restricted: plans and limits can't be raised.", next, tenant),
		}
	case "restricted":
		l.Subject, l.Title = fmt.Sprintf("%s is restricted until its invoice is paid", tenant), tenant+" is restricted"
		l.Intro = []string{
			fmt.Sprintf("An invoice of %s is still unpaid. Jobs still run, but plans and limits can't be raised.", tenant),
			fmt.Sprintf("If the invoice isn't paid by %s, %s is suspended: jobs are kept, but workers get none.", next, tenant),
		}
	case "suspended":
		l.Subject, l.Title = fmt.Sprintf("%s is suspended until its invoice is paid", tenant), tenant+" is suspended"
		l.Intro = []string{
			fmt.Sprintf("An invoice of %s is still unpaid. Workers get no jobs from now on. Jobs that are active can still be completed.", tenant),
			"All jobs and settings are kept for at least 30 days. Jobs run again as soon as the invoice is paid.",
		}
	case "active":
		l.Subject, l.Title = fmt.Sprintf("The invoice of %s is paid", tenant), "The invoice is paid"
		l.Intro = []string{fmt.Sprintf("Thank you. %s works without restrictions again.", tenant)}
	default:
		return Message{}, fmt.Errorf("compose email: no words for the state %q", to)
	}
	l.Outro = []string{fmt.Sprintf("You get this email because you are an owner of %s or get its emails about billing.", tenant)}
	return compose(email, now.Add(dunningLife), l)
}
