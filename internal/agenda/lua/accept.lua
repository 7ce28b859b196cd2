-- accept stores notifications of one partition, and sets wake-ups where none comes early enough. Each id is accepted
-- once; a notification that is known stays as it is.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  retention of ended notifications in ms
-- ARGV[2]  "" in a store that is not guarded; "epoch" when the partition must have its state; else the token of the
--          rebuild that the partition must be in, see requireRebuildOf
-- ARGV[3]  1: accepted by a process without metrics, so that another has to count them
-- ARGV[4…] per notification: id, category, user, priority, not before in µs (0: at once), expires_at in µs (0: never),
--          collapse key ("": none), payload, arrival (0: behind all others) and, unless it is accepted now, how long ago
--          it was in µs, its state until it is due (t, r; that of a delivery in flight, see accept_in_flight; or "s with" and the carrier of
--          the digest that it is in) and, if
--          it is restored, 1 when it was deferred before, 2 when it was if it stood in a blocked backlog; 1 when its
--          priority bypasses the limits, 2 when closed intervals do not hold for it, 3 when it may go sooner than what
--          it comes before, and 4 for both, and after a space the rungs of its overflow ladder that say waiting, see
--          LadderFor; 1 when the user has limits of their own, else 0, and behind it what is the same for all that may
--          go as one digest (nothing: it goes alone)
--
-- Result   {deferrals decided: {user, category, how many, rule, …}, among them what ladders did, see overflow.note; 1
--          when wake-ups were pushed to the queue, and none were pending, then per notification: when it was accepted
--          in µs, below 0 when its ladder ended it at once, 0 when the ladder refused it, or when the id was known
--          before {when that one was accepted, below 0 when its ladder has ended it, its user, its category, its payload}}
local call, ARGV = redis.call, ARGV
local retention = ARGV[1]
if ARGV[2] == 'epoch' and call('EXISTS', partition .. 'epoch') == 0 then
  return redis.error_reply('NOEPOCH the partition has lost its state')
end
local last = tonumber(call('GET', partition .. 'a') or 0)
local elsewhere = {}
-- How long the newest arrival with a collapse key is remembered. Where this is the store, an older one that failed may be
-- sent again for as long as it is kept.
local newest_life = GUARDED and COLLAPSE_LIFE or COLLAPSE_LIFE + tonumber(retention)

-- replace_earlier ends the waiting notification with the same collapse key, and returns the arrival that the place of
-- the newer one follows instead of its own, if any.
local function replace_earlier(agenda, n)
  local set = collapse_set(n.category, n.user)
  local earlier = call('HGET', set, n.collapse)
  call('HSET', set, n.collapse, n.id)
  call('SET', newest_key(n.category, n.user, n.collapse), digits(n.arrival), 'PX', digits(newest_life))
  -- Its own name is left when its hash was evicted and it is placed again.
  if not earlier or earlier == n.id then return nil end
  local state, follows, arrival = unpack(call('HMGET', partition .. 'n:' .. earlier, F.state, F.follows, F.arrival))
  if not remove_waiting(agenda, earlier) then return nil end
  finish(earlier, n.category, S.replaced, 'collapse_key', retention)
  wake_for_expiry(agenda, n.category)
  return state ~= S.scheduled and tonumber(follows or arrival) or nil
end

-- The ids that this script has stored.
local stored = {}

-- store writes a notification's hash. `optional` are the fields that few notifications have, as name, value, and so on.
local function store(n, state, optional)
  stored[n.id] = true
  call('HSET', partition .. 'n:' .. n.id, F.user, n.user, F.category, n.category, F.priority, n.priority,
    F.arrival, digits(n.arrival), F.accepted, digits(n.accepted), F.payload, n.payload, F.state, state,
    unpack(optional))
end

local function optional_fields(n, from, joined)
  local f, i = {}, 0
  if n.send_at ~= '0' then f[i + 1], f[i + 2], i = F.not_before, n.send_at, i + 2 end
  if n.expires_at ~= '0' then f[i + 1], f[i + 2], i = F.expires, n.expires_at, i + 2 end
  if n.collapse ~= '' then f[i + 1], f[i + 2], i = F.collapse, n.collapse, i + 2 end
  if n.group ~= '' then f[i + 1], f[i + 2], i = F.group, n.group, i + 2 end
  if n.bypasses then f[i + 1], f[i + 2], i = F.bypasses, '1', i + 2 end
  if n.before == '1' then f[i + 1], f[i + 2], i = F.deferrals, '1', i + 2 end
  if from then f[i + 1], f[i + 2], i = F.follows, digits(from), i + 2 end
  if joined and joined ~= 0 then f[i + 1], f[i + 2] = F.joined, digits(joined) end
  return f
end

-- goes_first reports whether a notification comes before the one that blocks its backlog, or has replaced it.
local function goes_first(n, backlog, at_place)
  local first = call('ZRANGE', backlog.key, '0', '0', 'WITHSCORES')[2]
  return not first or tonumber(first) > tonumber(at_place)
end

-- accept_due puts a notification that is due into its backlog.
local function accept_due(agenda, n, from)
  local known = agenda.backlogs[n.category] ~= nil
  local backlog = backlog_of(agenda, n.category)
  local at_place = place(tonumber(n.priority), from or n.arrival)
  local passes = n.bypasses or
    backlog.next > 0 and (n.exempt and backlog.rule < 0 or n.overtakes and goes_first(n, backlog, at_place))
  local sooner = waits_for_company(backlog) and goes_first(n, backlog, at_place)
  local since = stray_since(n.accepted, from, tonumber(n.send_at))
  local joined = add_to_backlog(agenda, backlog, n.id, at_place, passes, n.before == '1', since)
  if n.before == '2' and not passes and backlog.since == 0 then backlog.counted = backlog.counted + 1 end
  store(n, S.queued, optional_fields(n, from, joined))
  -- A backlog that is not empty has a wake-up. But a notification that passes what others wait for does not wait for it,
  -- and one that would wait for too long ends at once.
  if not known or passes or sooner or backlog.next > 0 and backlog.most > 0 and size_of(backlog) > backlog.most then
    ensure_wakeup(agenda, now)
  elseif n.expires_at ~= '0' then
    wake_for_expiry(agenda, n.category)
  end
end

-- accept_later puts a notification that is not due yet into the set of what is later.
local function accept_later(agenda, n, from)
  store(n, n.state, optional_fields(n, from))
  if n.state == S.retrying then call('HSET', partition .. 'n:' .. n.id, F.retry_set, digits(now)) end
  add_later(agenda, n.id, n.send_at)
  count(n.state == S.scheduled and 'scheduled' or 'retrying', 1)
  ensure_wakeup(agenda, tonumber(n.send_at))
end

-- accept_in_flight takes a delivery that was in flight when the partition lost its state. Its worker settles it as if
-- nothing had happened. n.state is "s", the end of its lease, generation, number of the attempt, admitted at, the number
-- of the epoch that granted it, and its basis.
local function accept_in_flight(n)
  local lease, generation, attempt, at, epoch, basis =
    string.match(n.state, '^s (%d+) (%d+) (%d+) (%d+) (%d+) (.*)$')
  local fields = optional_fields(n)
  for _, value in ipairs({ F.generation, generation, F.admitted, at, F.basis, basis,
    F.restored, generation .. ' ' .. epoch, F.returned, digits(generation - attempt) }) do
    fields[#fields + 1] = value
  end
  store(n, S.sending, fields)
  count('attempts', 1)
  call('ZADD', partition .. 'e', lease, n.id)
  -- Nobody could settle while it was lost: a rebuild that takes long is such a gap as a truce follows, see truce.lua.
  call('HSETNX', partition .. 'sweep', 'last', digits(now))
end

-- accept_item takes in an item of a digest. Whether that reached anybody is not known: it comes again as it is. Its
-- carrier was granted before, which a grant looks at.
local function accept_item(n, carrier)
  store(n, S.sending, { F.digest, carrier })
  call('RPUSH', partition .. 'digest:' .. carrier, n.id)
  call('HSET', partition .. 'n:' .. carrier, F.frozen, '1')
  if call('HSETNX', partition .. 'n:' .. carrier, F.generation, '1') == 1 then
    call('HSET', partition .. 'n:' .. carrier, F.returned, '1')
  end
  count('joined', 1)
end

-- accept takes one in, unless its ladder refuses it. It returns 0 then, and otherwise when it was accepted, below 0 when
-- the ladder ended it.
local function accept(agenda, n)
  if n.arrival == 0 then n.arrival = last + 1 end
  last = math.max(last, n.arrival)
  local ends, rung
  if n.ladder and string.sub(n.state, 1, 1) == S.scheduled and tonumber(n.send_at) <= now then
    ends, rung = judge_waiting(agenda, n, retention)
    if ends == 'refuse' then return 0 end
  end
  if ARGV[3] == '1' then elsewhere[n.category] = (elsewhere[n.category] or 0) + 1 end
  count('accepted', 1)
  note_history(S.arrived, n.category)
  if #n.state > 1 then n.before, n.state = string.match(n.state, '^%a(%d?)'), string.gsub(n.state, '^(%a)%d', '%1') end
  if ends then
    store(n, S.queued, optional_fields(n))
    finish(n.id, n.category, ends, 'overflow', retention, rung)
    cover_rest(agenda)
    return ends == S.expired and -n.accepted or n.accepted
  end
  local carrier = string.match(n.state, '^s with (.+)$')
  if carrier then
    accept_item(n, carrier)
    return n.accepted
  end
  if string.sub(n.state, 1, 1) == S.sending then
    accept_in_flight(n)
    return n.accepted
  end
  local from
  if n.collapse ~= '' then
    store(n, S.queued, optional_fields(n))
    if superseded(n.category, n.user, n.id) then
      finish(n.id, n.category, S.replaced, 'collapse_key', retention) -- a newer one came first, and may have been sent
      return n.accepted
    end
    from = replace_earlier(agenda, n)
  end
  if n.personal then mark_personal(agenda) end
  if n.expires_at ~= '0' then call('ZADD', partition .. 'y', n.expires_at, n.id) end
  if tonumber(n.send_at) > now then accept_later(agenda, n, from) else accept_due(agenda, n, from) end
  cover_rest(agenda)
  return n.accepted
end

-- What is known before of the ids and the users is asked for once for all.
local some_known, wakeups
do
  local keys, users = {}, {}
  for i = 4, #ARGV, 12 do
    keys[#keys + 1], users[#users + 1] = partition .. 'n:' .. ARGV[i], ARGV[i + 2]
  end
  some_known = call('EXISTS', unpack(keys)) > 0
  wakeups = call('ZMSCORE', partition .. 'wakeups', unpack(users))
end

-- first_with returns what was accepted with an id before; nil when nothing was.
local function first_with(id)
  if not some_known and not stored[id] then return nil end
  local accepted, user, category, payload, state, reason = unpack(call('HMGET', partition .. 'n:' .. id, F.accepted,
    F.user, F.category, F.payload, F.state, F.reason))
  local sign = state == S.expired and reason == 'overflow' and -1 or 1
  return accepted and { sign * accepted, user, category, payload }
end

local result = { deferrals, 0 }
for i = 4, #ARGV, 12 do
  local first, nth = first_with(ARGV[i]), (i + 8) / 12
  if first then
    result[#result + 1] = first
  else
    local passes = ARGV[i + 10]
    local how = #passes > 1 and string.sub(passes, 1, 1) or passes
    local n = {
      id = ARGV[i], category = ARGV[i + 1], user = ARGV[i + 2], priority = ARGV[i + 3], send_at = ARGV[i + 4],
      expires_at = ARGV[i + 5], collapse = ARGV[i + 6], payload = ARGV[i + 7], arrival = tonumber(ARGV[i + 8]),
      accepted = now, state = ARGV[i + 9], bypasses = how == '1',
      personal = string.sub(ARGV[i + 11], 1, 1) == '1', group = string.sub(ARGV[i + 11], 2),
      exempt = how == '2' or how == '4', overtakes = how == '3' or how == '4',
    }
    if not n.arrival then
      local arrival, age = string.match(ARGV[i + 8], '^(%d+) (%d+)$')
      n.arrival, n.accepted = tonumber(arrival), now - age
    end
    local agenda = open_agenda(n.user)
    if agenda.wakeup_at == nil then agenda.wakeup_at = tonumber(wakeups[nth] or nil) or false end
    if #passes > 1 then n.ladder = string.sub(passes, 3) end
    result[#result + 1] = accept(agenda, n)
  end
end
call('SET', partition .. 'a', digits(last))
for category, n in pairs(elsewhere) do call('HINCRBY', partition .. 'elsewhere', category, digits(n)) end
if write_changes() then result[2] = 1 end
return result
