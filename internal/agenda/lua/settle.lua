-- settle writes the disposition of a delivery. A settlement of another generation than the one in flight changes
-- nothing. Neither does one of a grant that an earlier state of the partition gave out, unless a rebuild has restored
-- it: a new state counts the generations of all others from the start.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  category
-- ARGV[2]  user
-- ARGV[3]  notification
-- ARGV[4]  generation that was granted
-- ARGV[5]  its state from now on; x: it is to be forgotten, since it has ended elsewhere
-- ARGV[6]  reason, for people to read
-- ARGV[7]  wait before a retry in µs
-- ARGV[8]  1: refund the throttle slot; 2: it carries a digest; 3: both
-- ARGV[9]  1: the attempt counts as a failure; 2: there was no attempt, and the retry waits for its provider; 3: the
--          retry comes back behind what waits now; 4: both 1 and 3
-- ARGV[10] retention of ended notifications in ms
-- ARGV[11] the number of the epoch that granted it; 0 in a store that is not guarded
-- ARGV[12] the provider's reply, for people to read; it holds no control character
-- ARGV[13…] the plan, see read_plan, when the slot is refunded
--
-- Result   {1 when the settlement is stale, else 0, deferrals decided: {user, category, how many, rule, …}}
local category, user, id, generation, outcome, reason = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local reply = ARGV[12]
local wait, refunds, counts_as, retention = tonumber(ARGV[7]), ARGV[8] % 2 == 1, ARGV[9], ARGV[10]
local carries = tonumber(ARGV[8]) >= 2
local fails, behind = counts_as == '1' or counts_as == '4', counts_as == '3' or counts_as == '4'
local CURRENT, STALE = { 0, deferrals }, { 1, deferrals }

local function read(of)
  local n = { id = of, key = partition .. 'n:' .. of }
  n.state, n.generation, n.caps, n.admitted, n.expires, n.collapse, n.lapsed, n.returned, n.restored, n.basis, n.group =
    unpack(redis.call('HMGET', n.key, F.state, F.generation, F.caps, F.admitted, F.expires, F.collapse, F.lapsed,
      F.returned, F.restored, F.basis, F.group))
  return n
end
local granted = read(id)

-- granted_in returns the number of the epoch that the generation in flight was granted in.
local function granted_in()
  local of, epoch = string.match(granted.restored or '', '^(%d+) (%d+)$')
  return of == generation and epoch or string.match(EPOCH, '^%d+')
end
if granted.generation ~= generation or GUARDED and granted_in() ~= ARGV[11] then return STALE end

local agenda = open_agenda(user)
if granted.state == S.queued and granted.lapsed == generation and outcome ~= S.queued and remove_waiting(agenda, id) then
  -- The lease has ended, but there is no newer grant: this late result is still the latest.
  if not GUARDED then redis.call('HINCRBY', granted.key, F.crashes, '-1') end
  redis.call('HDEL', granted.key, F.lapsed)
  wake_for_expiry(agenda, category)
elseif granted.state ~= S.sending then
  -- It was settled before, and the reply was lost; or, as end.lua sees it, it has ended otherwise.
  local ends = carries and not refunds and (outcome == S.delivered or outcome == S.failed)
  return (granted.state == S.queued or ends and granted.state ~= outcome) and STALE or CURRENT
end

-- untried takes an attempt back: nothing was sent. An item of a digest had none.
local function untried(n)
  if n.item then return end
  redis.call('HINCRBY', n.key, F.returned, '1')
  count('attempts', -1)
end

-- note_failure adds what became of the attempt to the history: until when it waits, why, the reply, when the attempt was
-- admitted, its number and its basis.
local function note_failure(n, due)
  local told = digits(due) .. ' ' .. reason .. '\t' .. reply
  if counts_as == '2' then
    add_to_history(n.id, now, 'held', told)
  elseif n.item then
    add_to_history(n.id, now, 'retrying', told)
  else
    add_to_history(n.id, now, 'retrying', told .. '\t' .. n.admitted .. ' ' ..
      digits(generation - (n.returned or 0)) .. ' ' .. (n.basis or ''))
  end
end

local function retry(n, due)
  redis.call('HSET', n.key, F.state, S.retrying, F.reason, reason, F.retry_due, digits(due), F.retry_set, digits(now),
    F.detail, reply)
  add_later(agenda, n.id, digits(due))
  if n.expires then redis.call('ZADD', partition .. 'y', n.expires, n.id) end
  if n.collapse then redis.call('HSETNX', collapse_set(category, user), n.collapse, n.id) end
  count('retrying', 1)
  if fails then redis.call('HSET', n.key, F.backed_off, digits(due)) end
  if behind then redis.call('HSET', n.key, F.follows, digits(redis.call('INCR', partition .. 'a'))) end
  if counts_as == '2' then
    redis.call('HSET', n.key, F.held, '1')
    untried(n)
    count('held', 1)
  end
  ensure_wakeup(agenda, due)
end

-- charged_plan returns the plan with the named caps that count the grant, whatever caps the category is in by now.
local function charged_plan()
  local plan = read_plan(13)
  plan.named = {}
  for name in string.gmatch(granted.caps or '', '%S+') do
    plan.named[#plan.named + 1] = { name = name, log = { max = 0, per = 0 } }
  end
  return set_plan_keys(plan, category, user)
end

-- go_on has a notification go on as the outcome says.
local function go_on(n, outcome)
  local due, reason, reply = now + wait, reason, reply
  if fails and (outcome == S.retrying or not n.item) then redis.call('HINCRBY', n.key, F.failures, '1') end
  if outcome == S.retrying then note_failure(n, due) end
  if outcome == S.retrying and n.expires and due >= tonumber(n.expires) then
    outcome, reason, reply = S.expired, 'expires_at', ''
  end
  if (outcome == S.retrying or outcome == S.queued) and superseded(category, user, n.id) then
    if outcome == S.queued or counts_as == '2' then untried(n) end
    outcome, reason, reply = S.replaced, 'collapse_key', ''
  end
  if outcome == S.retrying then
    retry(n, due)
  elseif outcome == S.queued then
    untried(n)
    return_to_backlog(agenda, n.id)
    ensure_wakeup(agenda, now)
  elseif outcome == 'x' then
    redis.call('DEL', n.key)
    count('attempts', -1)
  else
    finish(n.id, category, outcome, reason, retention, reply ~= '' and reply or nil)
    if refunds and not GUARDED and not n.item then redis.call('HSET', n.key, F.refunded, '1') end
  end
end

redis.call('ZREM', partition .. 'e', id)
if refunds then refund(charged_plan(), tonumber(granted.admitted), id .. '#' .. generation) end
if granted.group and outcome == S.retrying and not refunds and digests.freeze(id) then
  granted.expires, granted.collapse = nil, nil
end
local frozen = carries and digests.is_frozen(id)
go_on(granted, outcome)
if carries and (outcome == S.delivered or outcome == S.failed) then
  digests.end_items(id, category, outcome, retention)
elseif carries and not (frozen and (outcome == S.retrying or outcome == S.queued)) then
  -- Nobody got anything: each goes on by itself.
  for _, of in ipairs(digests.dissolve(id)) do
    local n = read(of)
    n.item = true
    go_on(n, outcome == S.retrying and S.retrying or S.queued)
  end
end
-- A notification that waits may use the refunded slot at once.
if refunds and agenda.size > 0 then ensure_wakeup(agenda, now) end
save_agenda(agenda)
cover_rest(agenda)
remove_if_empty(agenda)
write_changes()
return CURRENT
