-- The reply to a round, and what is kept of it in case the reply is lost. These functions stand before grants.lua and
-- take.lua.

-- The reply is one flat list: a list in a list costs Redis as much as a command.
local reply, reply_size = {}, 0

local function put(value)
  reply_size = reply_size + 1
  reply[reply_size] = value
end

-- reserve adds a place for a value that is not known yet, and returns its index.
local function reserve()
  reply_size = reply_size + 1
  reply[reply_size] = 0
  return reply_size
end

local function put_list(values)
  put(#values)
  for _, value in ipairs(values) do put(value) end
end

-- put_grant adds a grant. shadows are the shadow rules that would have it wait, see shadowed.
local function put_grant(
  id, category, at, slot, shadows, generation, attempt, failures, accepted, payload, deferrals, history, since, basis
)
  local r, i = reply, reply_size
  r[i + 1], r[i + 2], r[i + 3], r[i + 4], r[i + 5], r[i + 6] = id, category, at, slot, shadows, generation
  r[i + 7], r[i + 8], r[i + 9], r[i + 10], r[i + 11], r[i + 12] = attempt, failures, accepted, payload, deferrals, history
  r[i + 13], r[i + 14] = since, basis
  reply_size = i + 14
end

-- The state of a wake-up: gone from this process, held by it, or gone and pushed to the queue, since more may go at
-- once.
local GONE, HELD, AGAIN = 0, 1, 2

-- put_state ends the result of a wake-up: the deferrals that were decided, and its state.
local function put_state(how)
  put_list(deferrals)
  put(how)
end

-- put_held ends the result of a wake-up that this process holds until a moment.
local function put_held(moment, category, rule, categories)
  put_state(HELD)
  put(moment)
  put(category)
  put(rule)
  put_list(categories)
end

-- What is kept of a round: its name; a line for each requested wake-up, with generation and id of its grants; a line
-- for each new one: p (pulled) or t (served at once), generation, grants, user. Ids hold no space, users no control
-- character.
local rounds = { key = partition .. 'round:' .. ARGV[2], lines = { ARGV[1] }, gives = false }

function rounds.note(text) rounds.lines[#rounds.lines + 1] = text end

function rounds.save()
  if rounds.gives then redis.call('SET', rounds.key, table.concat(rounds.lines), 'PX', '60000') end
end

-- are_after reports whether a round has the name of the one that is kept, and a lower number. Then its worker has
-- gone on, and would not learn of its grants.
function rounds.are_after(round, remembered)
  local name, number = string.match(round, '^(.*)%.(%d+)$')
  local latest_name, latest = string.match(remembered, '^([^\n]*)%.(%d+)\n')
  return name ~= nil and name == latest_name and tonumber(number) < tonumber(latest)
end

-- put_grants_in_flight adds the grants of a wake-up that are still in flight; `given` is the wake-up's part of the
-- line. Their slots are not kept: the moments of their admissions stand for them.
local function put_grants_in_flight(given)
  local place, grants = reserve(), 0
  for of, id in string.gmatch(given, '(%d+) (%S+)') do
    local state, category, admitted, generation, returned, failures, accepted, payload, deferrals, history, not_before,
      backed_off, basis = unpack(redis.call('HMGET', partition .. 'n:' .. id, F.state, F.category, F.admitted,
        F.generation, F.returned, F.failures, F.accepted, F.payload, F.deferrals, F.history, F.not_before, F.backed_off,
        F.basis))
    if state == S.sending and generation == of then
      of, admitted, accepted, grants = tonumber(of), tonumber(admitted), tonumber(accepted), grants + 1
      local since = math.max(accepted, tonumber(not_before or 0), tonumber(backed_off or 0))
      put_grant(digests.with_items(id), category, admitted, admitted, 0, of, of - tonumber(returned or 0), tonumber(failures or 0), accepted,
        payload, tonumber(deferrals or 0), history or '', since, basis or '')
    end
  end
  reply[place] = grants
end
