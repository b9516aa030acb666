// oidc-provider with its development pages: any password signs in. Groups of a person
// can be set with PUT /test/groups/<login>.
import { createServer } from "node:http";
import Provider from "oidc-provider";

const port = Number(process.env.PORT);
const issuer = `http://127.0.0.1:${port}`;
const groups = new Map([
  ["ada", ["engineering"]],
  ["vic", ["everybody"]],
  ["eve", []],
]);

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "corvo",
      client_secret: "a-secret-of-the-identity-provider",
      redirect_uris: [`${process.env.SERVICE}/auth/oidc/tn_/callback`],
      grant_types: ["authorization_code"],
      response_types: ["code"],
    },
  ],
  claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name", "groups"] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  cookies: { keys: ["for tests only"] },
  async findAccount(_ctx, id) {
    return {
      accountId: id,
      claims: async () => ({ sub: id, email: `${id}@corp.example`, email_verified: true, name: id, groups: groups.get(id) ?? [] }),
    };
  },
});

// The tenants, and with them their redirect URIs, are made later.
provider.Client.prototype.redirectUriAllowed = (uri) => {
  const [, tenant] = uri.split("/auth/oidc/");
  return uri.startsWith(`${process.env.SERVICE}/auth/oidc/`) && /^tn_\w+\/callback$/.test(tenant);
};

const answer = provider.callback();

async function setGroups(req, res, login) {
  let body = "";
  for await (const chunk of req) body += chunk;
  groups.set(login, JSON.parse(body));
  res.writeHead(204).end();
}

createServer((req, res) => {
  const login = /^\/test\/groups\/(\w+)$/.exec(req.url ?? "")?.[1];
  if (login && req.method === "PUT") void setGroups(req, res, login);
  else answer(req, res);
}).listen(port, "127.0.0.1");
